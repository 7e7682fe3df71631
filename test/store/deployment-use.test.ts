import assert from "node:assert/strict";
import { openListenerSession } from "../../src/store/data-plane/listener-sessions.ts";
import { addMetricSamples } from "../../src/store/data-plane/metric-minutes.ts";
import { updateUnusedDeployments } from "../../src/store/deployments/unused-deployments.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld } from "./fixtures.ts";

const statusOf = async (db: Db, id: string) => {
  const { rows } = await db.query<{ status: string }>(sql`select status from deployments where id = ${id}`);
  return rows[0]?.status;
};

/** A deployment that has served for that many days without a request. */
async function serving(db: Db, { id, revisionId }: { id: string; revisionId: string }, days: number): Promise<void> {
  const began = sql`now() - ${days}::integer * interval '1 day'`;
  await db.query(sql`update revisions set status = 'DEPLOYED', created_at = ${began} where id = ${revisionId}`);
  await db.query(sql`update deployments set status = 'READY', active_revision_id = ${revisionId}, created_at = ${began}
             where id = ${id}`);
}

const sample = (deployment_id: string, requests: number) => ({
  ...{
    deployment_id,
    at: new Date().toISOString(),
    interval_ms: 60_000,
    replicas: 1,
    cpu_cores: null,
    memory_mib: null,
  },
  ...{ restarts: 0, requests, errors: 0, latency_counts: [requests] },
});

eachDatabase("a deployment without requests for the configured days is UNUSED until it gets one", async (db) => {
  const world = await makeWorld(db);
  const [idle, young, building] = [
    await makeDeployment(db, world),
    await makeDeployment(db, world),
    await makeDeployment(db, world),
  ];
  await serving(db, idle, 29);
  await serving(db, young, 27);
  await db.query(sql`update deployments set created_at = now() - interval '29 days' where id = ${building.id}`);
  const statuses = () => Promise.all([idle, young, building].map(({ id }) => statusOf(db, id)));

  assert.equal(await updateUnusedDeployments(db, null), 0, "no number of days is configured");
  assert.equal(await updateUnusedDeployments(db, 28), 1);
  assert.equal(await updateUnusedDeployments(db, 28), 0);
  assert.deepEqual(await statuses(), ["UNUSED", "READY", "AWAITING_DATABASE"]);

  const session = await openListenerSession(db, world.listenerId, { instanceId: "a", version: "1", leaseMs: 60_000 });
  await addMetricSamples(db, session, [sample(idle.id, 0)]);
  assert.equal(await updateUnusedDeployments(db, 28), 0, "it runs, but gets no requests");
  await addMetricSamples(db, session, [sample(idle.id, 1)]);
  assert.equal(await updateUnusedDeployments(db, 28), 1);
  assert.deepEqual(await statuses(), ["READY", "READY", "AWAITING_DATABASE"]);
});

eachDatabase("without a configured number of days no deployment stays UNUSED", async (db) => {
  const world = await makeWorld(db);
  const idle = await makeDeployment(db, world);
  await serving(db, idle, 29);
  assert.equal(await updateUnusedDeployments(db, 28), 1);
  assert.equal(await updateUnusedDeployments(db, null), 1);
  assert.equal(await statusOf(db, idle.id), "READY");
});

eachDatabase("a remote deployment becomes UNUSED only if its listener has ever counted a request", async (db) => {
  const world = await makeWorld(db);
  const idle = await makeDeployment(db, world);
  await serving(db, idle, 29);
  await db.query(sql`update listeners set builtin = false where id = ${world.listenerId}`);
  assert.equal(await updateUnusedDeployments(db, 28), 0, "a cluster's routes do not tell");
  await db.query(sql`update deployments set used_at = now() - interval '29 days' where id = ${idle.id}`);
  assert.equal(await updateUnusedDeployments(db, 28), 1);
});
