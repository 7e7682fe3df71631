import assert from "node:assert/strict";
import { updateSilentListeners } from "../../src/store/data-plane/silent-listeners.ts";
import { findUnqueuedDeployments } from "../../src/store/deployments/deployment-state.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { recordServerActivity } from "../../src/store/queue/server-activity.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld } from "./fixtures.ts";

const silentMs = 300_000;
const statusOf = async (db: Db, id: string) => {
  const { rows } = await db.query<{ status: string }>(sql`select status from deployments where id = ${id}`);
  return rows[0]?.status;
};
const seen = (db: Db, ago: string | null) =>
  db.query(sql`update listeners set last_seen_at = now() - ${ago}::interval`);
const serve = (db: Db, id: string, revisionId: string, status: string) =>
  db.query(sql`with served as (update deployments set status = ${status}, active_revision_id = ${revisionId} where id = ${id})
      update revisions set status = 'DEPLOYED' where id = ${revisionId}`);

eachDatabase(
  "deployments of a silent listener are UNKNOWN until it reports again, and none is enqueued",
  async (db) => {
    const world = await makeWorld(db);
    const [ready, unused, fresh] = [
      await makeDeployment(db, world),
      await makeDeployment(db, world),
      await makeDeployment(db, world),
    ];
    await serve(db, ready.id, ready.revisionId, "READY");
    await serve(db, unused.id, unused.revisionId, "UNUSED");
    const statuses = () => Promise.all([ready, unused, fresh].map(({ id }) => statusOf(db, id)));

    await seen(db, null);
    assert.equal(await updateSilentListeners(db, silentMs), 0, "never seen, so nothing was ever reported");
    await seen(db, "4 minutes");
    assert.equal(await updateSilentListeners(db, silentMs), 0);
    await seen(db, "6 minutes");
    assert.equal(await updateSilentListeners(db, silentMs), 2);
    assert.equal(await updateSilentListeners(db, silentMs), 0);
    assert.deepEqual(await statuses(), ["UNKNOWN", "UNKNOWN", "AWAITING_DATABASE"]);
    await db.query(sql`update reconcile_queue set run_at = null`);
    assert.deepEqual(await findUnqueuedDeployments(db, 10), [fresh.id]);

    await seen(db, "1 second");
    assert.equal(await updateSilentListeners(db, silentMs), 2);
    assert.deepEqual(await statuses(), ["READY", "READY", "AWAITING_DATABASE"]);
    const { rows } = await db.query<{ data: object }>(sql`
    select data from events where deployment_id = ${unused.id} and kind = 'deployment.status' order by id`);
    assert.deepEqual(
      rows.map(({ data }) => data),
      [
        { from: "UNUSED", to: "UNKNOWN" },
        { from: "UNKNOWN", to: "READY" },
      ],
    );
  },
);

eachDatabase("after all servers were down, a listener gets its full time to report again", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  await serve(db, id, revisionId, "READY");
  await seen(db, "10 minutes");
  await db.query(sql`update clock set worked_at = now() - interval '10 minutes'`);
  await recordServerActivity(db);
  assert.equal(await updateSilentListeners(db, silentMs), 0);
  await db.query(sql`update clock set resumed_at = now() - interval '6 minutes'`);
  assert.equal(await updateSilentListeners(db, silentMs), 1);
});
