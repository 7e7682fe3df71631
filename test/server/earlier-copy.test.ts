import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { createListenerClient, httpSend, httpStreams } from "../../src/client/listener-client.ts";
import { openSimulatedCompute, SimulatedWorld } from "../../src/compute/simulated.ts";
import { createGateway } from "../../src/gateway/gateway.ts";
import { createListener } from "../../src/listener/listener.ts";
import { replicaFleet } from "../../src/listener/replicas/replica-fleet.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";

/**
 * Copies all rows and sequences.
 * @returns a function that restores the copy, like an earlier copy of the database files or a replica that lags behind.
 */
async function keepCopy(db: Db): Promise<() => Promise<void>> {
  const { rows: tables } = await db.query<{ name: string }>(sql`
    select tablename as name from pg_tables where schemaname = 'public'`);
  const { rows: numbers } = await db.query<{ name: string; last: number | null }>(sql`
    select sequencename as name, last_value as last from pg_sequences where schemaname = 'public'`);
  await db.query(sql`create schema earlier`);
  for (const { name } of tables) {
    await db.query(sql`create table ${sql.identifier(`earlier.${name}`)} as table ${sql.identifier(name)}`);
  }
  return () =>
    db.transaction(async (trx) => {
      // The foreign keys of the copy are valid, so they need no check per row.
      await trx.query(sql`set local session_replication_role = replica`);
      for (const { name } of tables) {
        await trx.query(sql`delete from ${sql.identifier(name)}`);
        await trx.query(sql`insert into ${sql.identifier(name)} overriding system value
                  select * from ${sql.identifier(`earlier.${name}`)}`);
      }
      for (const { name, last } of numbers) {
        await trx.query(sql`select setval(${name}, ${last ?? 1}, ${last !== null})`);
      }
    });
}

function startListener(url: string, key: string, world: SimulatedWorld) {
  const logger = createLogger("silent");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const compute = openSimulatedCompute({ world });
  const client = createListenerClient(httpSend(url, key), httpStreams(url, key));
  const options = { client, logger, instanceId: randomUUID(), version: "0.0.0" };
  const listener = createListener(options, replicaFleet({ compute, traffic: gateway }));
  listener.start();
  return {
    async [Symbol.asyncDispose]() {
      await listener.stop();
      await compute.close();
      await gateway.close();
    },
  };
}

test("runs the revision of a database that was reset to an earlier copy, and continues to deploy", async () => {
  const key = `ph_${"0".repeat(12)}_${"k".repeat(43)}`;
  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none", PIERHEAD_LISTENER_KEY: key });
  const world = new SimulatedWorld({ seed: 3 });
  await using _listener = startListener(pierhead.url, key, world);
  const { client, server } = pierhead;
  const config = (version: number) => ({ source_revision_config: { image_uri: `127.0.0.1:1/agent:${version}` } });
  const deployed = async (deployment_id: string, revision_id: string | null) => {
    const revision = await client.waitForRevision({ deployment_id, revision_id: revision_id as string });
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    return revision.id;
  };
  const { id, latest_revision_id } = await client.createDeployment({
    body: { name: "agent", source: "external_docker", source_config: {}, ...config(1) },
  });
  const deploy = async (version: number) => {
    const changed = await client.patchDeployment({ deployment_id: id, body: config(version) });
    return deployed(id, changed.latest_revision_id);
  };
  const runs = (revisionId: string) =>
    eventually(
      () => world.snapshot().map(({ revisionId, phase }) => `${revisionId} ${phase}`),
      (found) => found.join() === `${revisionId} ready`,
      { timeoutMs: 45_000, what: revisionId },
    );
  const first = await deployed(id, latest_revision_id);
  await runs(first);
  const putBack = await keepCopy(server.db);
  await deploy(2);
  await runs(await deploy(3));

  await putBack();
  await runs(first);
  assert.equal((await client.getDeployment({ deployment_id: id })).latest_revision_id, first);
  await runs(await deploy(4));
});
