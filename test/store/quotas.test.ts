import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { blankSourceConfig } from "../../src/domain/settings.ts";
import { claimBuild, finishBuild, takeAbandonedBuild } from "../../src/store/builds/builds.ts";
import { createDeployment } from "../../src/store/deployments/create-deployment.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { takeOverLeases } from "../../src/store/queue/release-leases.ts";
import { buildQuotaProblem, changeQuotas, checkGrowth, readUsage } from "../../src/store/tenants/quotas.ts";
import { deleteWorkspace } from "../../src/store/tenants/tenants.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld, newDeployment } from "./fixtures.ts";

const everything = { organizationId: null, workspaceId: null };
const limit = (
  db: Db,
  tenantId: string,
  wanted: Partial<Record<"deployments" | "replicas" | "buildMinutes", number>>,
) => changeQuotas(db, everything, tenantId, { ...wanted, actor: "test" });

eachDatabase("of concurrent creates exactly as many succeed as the quota allows", async (db) => {
  const world = await makeWorld(db);
  await limit(db, world.tenantId, { deployments: 4 });
  const ends = await Promise.allSettled(Array.from({ length: 12 }, () => createDeployment(db, newDeployment(world))));
  assert.equal(ends.filter(({ status }) => status === "fulfilled").length, 4);
  assert.equal((await readUsage(db, world.tenantId)).deployments, 4);
  for (const table of ["revisions", "events"]) {
    const { rows } = await db.query<{ n: number }>(sql`select count(*) as n from ${sql.identifier(table)}`);
    assert.deepEqual(rows, [{ n: 4 }], `${table}: those refused left nothing`);
  }
});

eachDatabase("of deployments that grow at the same time only as many grow as the quota allows", async (db) => {
  const world = await makeWorld(db);
  const sized = (max: number) => ({ ...blankSourceConfig, resource_spec: { max_scale: max } });
  const made = Array.from({ length: 6 }, () =>
    newDeployment(world, { source: "external_docker", source_config: sized(1) }),
  );
  for (const one of made) await createDeployment(db, one);
  await limit(db, world.tenantId, { replicas: 10 });
  const grow = (id: string) =>
    db.transaction(async (trx) => {
      await checkGrowth(trx, { id, tenant_id: world.tenantId, source_config: sized(1) }, sized(3));
      await trx.query(sql`update deployments set source_config = ${JSON.stringify(sized(3))} where id = ${id}`);
    });
  const ends = await Promise.allSettled(made.map(({ id }) => grow(id)));
  assert.equal(ends.filter(({ status }) => status === "fulfilled").length, 2, "6 + 2 + 2 = 10");
  assert.equal((await readUsage(db, world.tenantId)).replicas, 10);
});

async function awaitingBuild(db: Db, world: Awaited<ReturnType<typeof makeWorld>>) {
  const { id, revisionId } = await makeDeployment(db, world);
  await db.query(sql`update revisions set status = 'AWAITING_BUILD' where id = ${revisionId}`);
  return { id: revisionId, deploymentId: id };
}
const claim = (owner: string) => ({ owner, leaseMs: 15_000, deadlineAt: new Date(Date.now() + 60_000) });
const ended = (owner: string) => ({ owner, status: "succeeded" as const, result: null });
const backdate = (db: Db, revisionId: string, { began, lease }: { began: string; lease: string }) =>
  db.query(sql`update builds set started_at = now() - ${began}::interval, lease_until = now() + ${lease}::interval
       where revision_id = ${revisionId}`);
/** Whole minutes, so that the duration of the test itself does not count. */
const minutes = async (db: Db, tenantId: string) => Math.round((await readUsage(db, tenantId)).buildMinutes);

eachDatabase(
  "a build's time counts while it runs, once when it ends, and after its deployment is deleted",
  async (db) => {
    const world = await makeWorld(db);
    const revision = await awaitingBuild(db, world);
    await claimBuild(db, revision, claim("one"));
    await backdate(db, revision.id, { began: "3 minutes", lease: "10 seconds" });
    assert.equal(await minutes(db, world.tenantId), 3);
    assert.equal(await finishBuild(db, revision.id, ended("one")), true);
    assert.equal(await finishBuild(db, revision.id, ended("one")), false);
    assert.equal(await minutes(db, world.tenantId), 3);
    await db.query(sql`delete from deployments where id = ${revision.deploymentId}`);
    assert.equal(await minutes(db, world.tenantId), 3);
  },
);

eachDatabase("a build of a dead server counts up to its last heartbeat, whichever server ends it", async (db) => {
  const world = await makeWorld(db);
  const revision = await awaitingBuild(db, world);
  await claimBuild(db, revision, claim("dead:1"));
  await backdate(db, revision.id, { began: "60 minutes", lease: "-58 minutes" });
  assert.equal(await minutes(db, world.tenantId), 2);
  await db.query(sql`update builds set pid = 42, pid_started = 'tick' where revision_id = ${revision.id}`);
  await takeOverLeases(db, "dead");
  assert.equal(await minutes(db, world.tenantId), 2, "an hour without a server does not count");
  const left = await claimBuild(db, revision, claim("next"));
  assert.deepEqual(left, { pid: 42, pidStarted: "tick" }, "its process is known and can be ended");
  assert.equal(await minutes(db, world.tenantId), 2);
  await backdate(db, revision.id, { began: "60 minutes", lease: "-59 minutes" });
  assert.ok(await takeAbandonedBuild(db, revision.id, { owner: "third", leaseMs: 15_000 }));
  await finishBuild(db, revision.id, { owner: "third", status: "cancelled", result: null });
  assert.equal(await minutes(db, world.tenantId), 3);
});

eachDatabase("no build starts once this month's minutes are used up, and last month's do not count", async (db) => {
  const world = await makeWorld(db);
  const revision = await awaitingBuild(db, world);
  await claimBuild(db, revision, claim("one"));
  await backdate(db, revision.id, { began: "5 minutes", lease: "10 seconds" });
  assert.equal(await buildQuotaProblem(db, world.tenantId), null);
  await limit(db, world.tenantId, { buildMinutes: 5 });
  const problem = (await buildQuotaProblem(db, world.tenantId)) ?? "";
  assert.match(problem, /'build_minutes' of this workspace is 5 a month, and 5 are used in \d{4}-\d{2} \(UTC\)/);
  assert.match(problem, /next month.*redeploy a revision.*ask an administrator/);
  await finishBuild(db, revision.id, ended("one"));
  await db.query(sql`update build_usage set month = '2001-01'`);
  assert.equal(await buildQuotaProblem(db, world.tenantId), null);
});

eachDatabase(
  "deployments that race the deletion of their workspace are created or refused, and leave nothing behind",
  async (db) => {
    for (let round = 0; round < 10; round += 1) {
      const world = await makeWorld(db);
      const ends = await Promise.allSettled([
        deleteWorkspace(db, everything, world.tenantId, "test"),
        createDeployment(db, newDeployment(world)),
      ]);
      assert.equal(ends.filter(({ status }) => status === "fulfilled").length, 1);
      const refusal = ends.find((end) => end.status === "rejected")?.reason as { status: number };
      assert.ok([403, 409].includes(refusal.status), String(refusal));
    }
  },
);

eachDatabase("an unknown workspace has no quotas to change", async (db) => {
  assert.equal(await limit(db, randomUUID(), { deployments: 1 }), false);
});
