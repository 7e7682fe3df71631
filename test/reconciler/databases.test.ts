import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type DatabaseServer, DatabaseServerError, databaseNameOf } from "../../src/provision/database-server.ts";
import { reconcileDeployment } from "../../src/reconciler/loop/reconcile.ts";
import { readState } from "../../src/reconciler/plan/read-state.ts";
import type { DeploymentState } from "../../src/reconciler/plan/state.ts";
import type { DatabaseServers } from "../../src/reconciler/steps/database-servers.ts";
import { finalizeDeployment } from "../../src/reconciler/steps/delete-deployment.ts";
import { planDeploymentDatabase } from "../../src/store/deployments/deployment-databases.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { readRevision } from "../../src/store/revisions/revisions.ts";
import { openSealer, type Sealer } from "../../src/store/secrets/seal.ts";
import { makeDeployment, makeWorld } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";
import { passDeps } from "./pass-deps.ts";

const never = new AbortController().signal;

const refuse = async () => {
  throw new DatabaseServerError("PostgreSQL at db.internal:5432: ECONNREFUSED");
};
/** A deployment with databases, and what opens their passwords. */
interface Owner {
  id: string;
  revisionId: string;
  databases: DatabaseServers;
  sealer: Sealer;
}

const away: DatabaseServer = { ensure: refuse, remove: refuse, environment: () => ({}) };

/** Creates a deployment with a database on the operator's server, and a revision in CREATING. */
async function makeOwner(db: Db): Promise<Owner> {
  const world = await makeWorld(db);
  const made = await makeDeployment(db, world);
  const sealer = await openSealer(db, randomBytes(32));
  sealer.close();
  const kinds = { postgres: "shared", redis: "none" } as const;
  await planDeploymentDatabase(db, sealer, { id: made.id, tenantId: world.tenantId }, kinds);
  await db.query(sql`update deployments set status = 'READY' where id = ${made.id}`);
  const shared = { postgres: away, redis: null };
  return { ...made, databases: { shared, container: null, areContainersWanted: false }, sealer };
}

eachDatabase("a later revision waits for a database server that is away and names it when it times out", async (db) => {
  const { id, revisionId, databases, sealer } = await makeOwner(db);
  const pass = () => reconcileDeployment(passDeps(db, { databases, sealer }), id, never);
  const { kind, because } = await pass();
  assert.equal(kind, "waiting");
  assert.match(because, /not provisioned yet: PostgreSQL at db.internal:5432/);
  await db.query(sql`update revisions set deadline_at = now() + interval '1 second' where id = ${revisionId}`);
  await pass();
  const failed = await readRevision(db, revisionId);
  assert.equal(failed?.status, "CREATE_FAILED");
  assert.match(failed?.status_message ?? "", /could not be provisioned in time: PostgreSQL at db.internal:5432/);
});

for (const [title, configured] of [
  ["any database server", () => null],
  ["that database server", (all: DatabaseServers) => ({ ...all, shared: { postgres: null, redis: away } })],
] as const) {
  eachDatabase(`without ${title} in the configuration, a revision fails and names the setting`, async (db) => {
    const { id, revisionId, databases, sealer } = await makeOwner(db);
    await reconcileDeployment(passDeps(db, { databases: configured(databases), sealer }), id, never);
    const failed = await readRevision(db, revisionId);
    assert.equal(failed?.status, "CREATE_FAILED");
    assert.match(failed?.status_message ?? "", /set PIERHEAD_AGENT_POSTGRES_URL again/);
  });

  eachDatabase(`without ${title} in the configuration, a delete reports what it leaves behind`, async (db) => {
    const { id, databases } = await makeOwner(db);
    const message = await lastMessage(db, id, { databases: configured(databases), isForced: false });
    assert.equal(message, `Left behind: ${databaseNameOf(id)} in postgres, which is no longer configured.`);
  });
}

eachDatabase(
  "a revision whose chosen engine lacks a database fails before its build, and names what to set",
  async (db) => {
    const { id, revisionId, databases, sealer } = await makeOwner(db);
    const postgres: DatabaseServer = { ...away, ensure: async () => undefined };
    const configured = { ...databases, shared: { postgres, redis: null } };
    await db.query(
      sql`update revisions set source_config = source_config || '{"engine": "aegra"}' where id = ${revisionId}`,
    );
    await reconcileDeployment(passDeps(db, { databases: configured, sealer }), id, never);
    const failed = await readRevision(db, revisionId);
    assert.equal(failed?.status, "CREATE_FAILED");
    assert.equal(failed?.failure?.code, "engine_unavailable");
    assert.match(failed?.status_message ?? "", /^The engine aegra needs a Redis, .* Set REDIS_URI_CUSTOM among/);
  },
);

eachDatabase(
  "a forced delete reports what it leaves on a server that is away, and any other delete waits",
  async (db) => {
    const { id, databases } = await makeOwner(db);
    await assert.rejects(lastMessage(db, id, { databases, isForced: false }), DatabaseServerError);
    const message = await lastMessage(db, id, { databases, isForced: true });
    assert.equal(
      message,
      `Left behind: ${databaseNameOf(id)} in postgres: PostgreSQL at db.internal:5432: ECONNREFUSED.`,
    );
  },
);

/** Finalizes a deployment and returns the message of the event. */
async function lastMessage(
  db: Db,
  id: string,
  { databases, isForced }: { databases: DatabaseServers | null; isForced: boolean },
): Promise<unknown> {
  await db.query(sql`update deployments set status = 'AWAITING_DELETE' where id = ${id}`);
  const state = (await readState(passDeps(db).store, id))?.state as DeploymentState;
  const files = {
    isDiskLow: async () => false,
    ...{ locateUpload: async (path: string) => ({ path }), removeUploads: async () => {} },
    removeArtifact: async () => true,
  };
  const deps = passDeps(db, { databases, files });
  await finalizeDeployment(deps, { ...state, isDeleteForced: isForced }, { kind: "finalize" }, never);
  const { rows } = await db.query<{ data: Record<string, unknown> }>(sql`
    select data from events where deployment_id = ${id} order by id desc limit 1`);
  const { message, ...move } = rows[0]?.data ?? {};
  assert.deepEqual(move, { from: "AWAITING_DELETE", to: "AWAITING_FINAL_DELETE" });
  return message;
}
