import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { ApiError } from "../../src/contract/error.ts";
import type { Artifact } from "../../src/contract/listeners/assignment.ts";
import { saveArtifact } from "../../src/store/builds/artifacts.ts";
import { findFollowedBranch, recordBranchPoll } from "../../src/store/code-hosts/branch-watches.ts";
import { createDeployment } from "../../src/store/deployments/create-deployment.ts";
import { readDefaultEngine } from "../../src/store/deployments/deployment-databases.ts";
import {
  deleteDeploymentRow,
  findDeployment,
  moveDeployment,
  requestDelete,
} from "../../src/store/deployments/deployments.ts";
import { detachTracingProject, recordTracingFailure } from "../../src/store/deployments/tracing-projects.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { claim, failPass } from "../../src/store/queue/reconcile-queue.ts";
import { interruptRevision, listRevisions, moveRevision, skipRevisions } from "../../src/store/revisions/revisions.ts";
import { openSealer } from "../../src/store/secrets/seal.ts";
import { findSecretSet, openSecrets, sealSecrets } from "../../src/store/secrets/secrets.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld, newDeployment, newRevision } from "./fixtures.ts";

eachDatabase("writes a deployment with its revision, event, audit row and queue entry together", async (db) => {
  const world = await makeWorld(db);
  const made = newDeployment(world);
  await createDeployment(db, made);
  const found = await findDeployment(db, world.tenantId, made.id);
  assert.equal(found?.status, "AWAITING_DATABASE");
  assert.equal(found?.latest_revision_id, made.revision?.id);
  for (const table of ["events", "audit_log", "reconcile_queue"]) {
    assert.equal(await countOf(db, table, made.id), 1, table);
  }
});

eachDatabase(
  "of many concurrent creates with one name exactly one succeeds, and the others write nothing",
  async (db) => {
    const world = await makeWorld(db);
    const made = [1, 2, 3, 4, 5, 6].map(() => newDeployment(world, { name: "same" }));
    const ends = await Promise.allSettled(made.map((one) => createDeployment(db, one)));
    assert.equal(ends.filter((end) => end.status === "fulfilled").length, 1);
    for (const end of ends) {
      if (end.status === "rejected") assert.ok(end.reason instanceof ApiError && end.reason.status === 409);
    }
    const { rows } = await db.query<{ revisions: number; events: number }>(sql`
    select (select count(*) from revisions) as revisions, (select count(*) from events) as events`);
    assert.deepEqual(rows, [{ revisions: 1, events: 1 }]);
  },
);

eachDatabase("does not find, list or delete another tenant's deployment", async (db) => {
  const world = await makeWorld(db);
  const other = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  assert.equal(await findDeployment(db, other.tenantId, id), undefined);
  const page = { statuses: null, limit: 10, offset: 0 };
  assert.deepEqual(await listRevisions(db, other.tenantId, id, page), []);
  const request = { deleteTracingProject: false, force: false, actor: "test" };
  assert.equal(await requestDelete(db, other.tenantId, id, request), false);
  const stolen = { id: revisionId, deploymentId: id, tenantId: other.tenantId, actor: "test" };
  assert.equal(await interruptRevision(db, stolen), undefined);
});

eachDatabase(
  "of eight workers that move the same revision exactly one succeeds, and the deployment is enqueued once",
  async (db) => {
    const world = await makeWorld(db);
    const { id, revisionId } = await makeDeployment(db, world);
    const before = await timesMadeDue(db, id);
    const move = { from: "CREATING", to: "QUEUED", because: "resolved", deadlineAt: null } as const;
    const won = await Promise.all(
      Array.from({ length: 8 }, () => moveRevision(db, { id: revisionId, deploymentId: id }, move)),
    );
    assert.equal(won.filter((one) => one).length, 1);
    assert.equal(await timesMadeDue(db, id), before + 1);
  },
);

eachDatabase("a transition that is not allowed throws instead of changing the row", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  const move = { from: "CREATING", to: "DEPLOYED", because: "no", deadlineAt: null } as const;
  await assert.rejects(moveRevision(db, { id: revisionId, deploymentId: id }, move), RangeError);
});

eachDatabase("lists revisions newest first, by insertion when times are equal", async (db) => {
  const world = await makeWorld(db);
  const { id } = await makeDeployment(db, world);
  const made = [newRevision(), newRevision(), newRevision()];
  for (const one of made) {
    await db.query(sql`
      insert into revisions (id, tenant_id, deployment_id, status, source, source_config, source_revision_config, created_at)
      values (${one.id}, ${world.tenantId}, ${id}, 'QUEUED', 'github', '{}', '{}', now() - interval '1 hour')`);
  }
  const page = await listRevisions(db, world.tenantId, id, { statuses: ["QUEUED"], limit: 10, offset: 0 });
  assert.deepEqual(
    page.map((one) => one.id),
    made.map((one) => one.id).reverse(),
  );
  await skipRevisions(
    db,
    made.slice(0, 2).map((one) => one.id),
    made[2]?.id as string,
  );
  const skipped = await listRevisions(db, world.tenantId, id, { statuses: ["SKIPPED"], limit: 10, offset: 0 });
  assert.equal(skipped.length, 2);
  assert.match(skipped[0]?.status_message ?? "", /Superseded/);
});

eachDatabase("a delete interrupts work in progress and finally leaves no rows but the history", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  const request = { deleteTracingProject: true, force: false, actor: "test" };
  assert.equal(await requestDelete(db, world.tenantId, id, request), true);
  assert.equal(await requestDelete(db, world.tenantId, id, request), true);
  const page = await listRevisions(db, world.tenantId, id, { statuses: null, limit: 10, offset: 0 });
  assert.deepEqual(
    page.map((one) => [one.id, one.status]),
    [[revisionId, "INTERRUPTED"]],
  );
  assert.equal(await deleteDeploymentRow(db, id), false, "not before it is finalized");
  assert.equal(await moveDeployment(db, id, { from: "AWAITING_DELETE", to: "AWAITING_FINAL_DELETE" }), true);
  assert.equal(await deleteDeploymentRow(db, id), true);
  for (const table of [
    "revisions",
    "reconcile_queue",
    "assignments",
    "observations",
    "log_entries",
    "uploads",
    "secret_sets",
  ]) {
    assert.equal(await countOf(db, table, id), 0, table);
  }
});

eachDatabase("stores secrets unreadable, and opens them only for their own deployment and listener", async (db) => {
  const sealer = await openSealer(db, randomBytes(32));
  const world = await makeWorld(db);
  const made = newDeployment(world);
  const secrets = sealSecrets(sealer, { TOKEN: "canary-value" }, made);
  await createDeployment(db, { ...made, secrets });
  const found = await findDeployment(db, world.tenantId, made.id);
  assert.ok(found);
  assert.deepEqual(openSecrets(sealer, found, found), { TOKEN: "canary-value" });
  assert.ok(!found.sealed_secrets?.includes("canary-value"));
  assert.throws(() => openSecrets(sealer, found, { ...found, id: randomUUID() }));
  const key = { listenerId: world.listenerId, deploymentId: made.id, secretSetId: secrets.id };
  assert.deepEqual((await findSecretSet(db, sealer, key))?.values, { TOKEN: "canary-value" });
  assert.equal(await findSecretSet(db, sealer, { ...key, listenerId: randomUUID() }), undefined);
});

eachDatabase("stores texts of other servers, even with a zero byte or half of a surrogate pair", async (db) => {
  const world = await makeWorld(db);
  const { id } = await makeDeployment(db, world);
  const [odd, sound] = ["no\u0000thing \ud83d", "nothing \ufffd"];
  await db.query(sql`insert into tracing_projects (id, tenant_id, name, project, deployment_id, status)
            values (${randomUUID()}, ${world.tenantId}, 'a', 'a', ${id}, 'wanted') on conflict do nothing`);
  await db.query(sql`update tracing_projects set status = 'wanted'`);
  await recordTracingFailure(db, id, { message: odd, retryAt: new Date() });
  await detachTracingProject(db, id, odd);
  const poll = {
    deploymentId: id,
    tenantId: world.tenantId,
    repoKey: "r",
    ref: "main",
    commitSha: null,
    messageCount: 0,
  };
  await recordBranchPoll(db, { ...poll, handled: [], nextInMs: 0, error: odd });
  assert.equal((await findFollowedBranch(db, id))?.error, sound);
  const [claimed] = await claim(db, { owner: "o", limit: 1, leaseMs: 60_000 });
  const pass = { deploymentId: id, owner: "o", generation: claimed?.generation as number, durationMs: 1 };
  assert.equal(await failPass(db, { ...pass, because: odd }), true);
  await requestDelete(db, world.tenantId, id, { deleteTracingProject: false, force: false, actor: "test" });
  const move = { from: "AWAITING_DELETE", to: "AWAITING_FINAL_DELETE", message: odd } as const;
  assert.equal(await moveDeployment(db, id, move), true);
  const { rows } = await db.query<{ message: string }>(sql`
    select data ->> 'message' as message from events where data ? 'message' order by id`);
  assert.deepEqual(
    rows.map(({ message }) => message),
    [sound, sound, sound],
  );
});

async function countOf(db: Db, table: string, deploymentId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>(sql`
    select count(*) as count from ${sql.identifier(table)} where deployment_id = ${deploymentId}`);
  return rows[0]?.count ?? -1;
}

async function timesMadeDue(db: Db, id: string): Promise<number> {
  const { rows } = await db.query<{ generation: number }>(sql`
    select generation from reconcile_queue where deployment_id = ${id}`);
  return rows[0]?.generation ?? 0;
}

eachDatabase(
  "the default engine is kept once a deployment serves from it, and gone once it serves from files",
  async (db) => {
    const world = await makeWorld(db);
    const { id, revisionId } = await makeDeployment(db, world);
    assert.equal(await readDefaultEngine(db, id), null);
    await db.query(sql`update deployments set default_engine = 'postgres' where id = ${id}`);
    assert.deepEqual(await readDefaultEngine(db, id), { engine: "postgres", isServing: false });
    const serveFrom = async (engine: "postgres" | "file") => {
      const artifact = await saveArtifact(db, world.tenantId, `on ${engine}`, { engine } as Artifact);
      await db.query(sql`update revisions set artifact_id = ${artifact} where id = ${revisionId}`);
      await db.query(sql`update deployments set active_revision_id = ${revisionId} where id = ${id}`);
      return readDefaultEngine(db, id);
    };
    assert.deepEqual(await serveFrom("postgres"), { engine: "postgres", isServing: true });
    assert.equal(await serveFrom("file"), null);
  },
);
