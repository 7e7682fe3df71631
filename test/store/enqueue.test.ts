import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { enqueueAndWake, enqueued } from "../../src/store/queue/enqueue.ts";
import { eachDatabase } from "../support/database.ts";

eachDatabase("a deployment is enqueued with its transaction, or not at all", async (db) => {
  const id = randomUUID();
  const undone = db.transaction(async (trx) => {
    await enqueueAndWake(trx, id);
    throw new Error("undo");
  });
  await assert.rejects(undone, /undo/);
  assert.deepEqual(await queued(db), []);
  await db.transaction((trx) => enqueueAndWake(trx, id));
  assert.deepEqual(await queued(db), [{ deployment_id: id, generation: 1 }]);
});

eachDatabase("a source with many rows of one deployment enqueues it once, and an empty source none", async (db) => {
  const id = randomUUID();
  const make = (rows: number) =>
    db.query(sql`
    with source as (select ${id}::uuid as deployment_id from generate_series(1, ${rows}::int)), ${enqueued("source")}
    select 1`);
  await make(0);
  assert.deepEqual(await queued(db), []);
  await make(3);
  await make(3);
  assert.deepEqual(await queued(db), [{ deployment_id: id, generation: 2 }]);
});

eachDatabase("an enqueued deployment keeps its earlier time, and its pass detects the further change", async (db) => {
  const id = randomUUID();
  await enqueueAndWake(db, id);
  const early = await dueAt(db, id);
  await enqueueAndWake(db, id);
  assert.equal(await dueAt(db, id), early);
  assert.deepEqual(await queued(db), [{ deployment_id: id, generation: 2 }]);
});

async function queued(db: Db): Promise<unknown[]> {
  const { rows } = await db.query(sql`select deployment_id, generation from reconcile_queue`);
  return rows;
}

async function dueAt(db: Db, id: string): Promise<string> {
  const { rows } = await db.query<{ at: string }>(sql`
    select run_at::text as at from reconcile_queue where deployment_id = ${id}`);
  return rows[0]?.at ?? "";
}
