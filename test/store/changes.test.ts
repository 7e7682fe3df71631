import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { sql } from "kysely";
import pg from "pg";
import {
  announceChange,
  announced,
  type Change,
  followChanges,
  lastChange,
  trimChanges,
} from "../../src/store/changes.ts";
import { type Db, openDatabase } from "../../src/store/database.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eachDatabase } from "../database.ts";
import { eventually } from "../eventually.ts";

const logger = createLogger("silent");
const tenantId = randomUUID();

eachDatabase("an announced change and its pass commit with the transaction around them, or not at all", async (db) => {
  const id = randomUUID();
  const undone = db.transaction(async (trx) => {
    await announceChange(trx, { id, tenantId });
    throw new Error("undo");
  });
  await assert.rejects(undone, /undo/);
  assert.deepEqual(await written(db), { changes: 0, passes: 0 });
  await db.transaction((trx) => announceChange(trx, { id, tenantId }));
  assert.deepEqual(await written(db), { changes: 1, passes: 1 });
});

eachDatabase(
  "a source with many rows of one deployment announces it once, and one without rows announces nothing",
  async (db) => {
    const id = randomUUID();
    const announce = (rows: number) =>
      sql`
    with source as (
      select ${id}::uuid as deployment_id, ${tenantId}::uuid as tenant_id from generate_series(1, ${rows}::int)
    ), ${announced("source")} select 1`.execute(db.kysely);
    await announce(0);
    assert.deepEqual(await written(db), { changes: 0, passes: 0 });
    await announce(3);
    await announce(3);
    assert.deepEqual(await written(db), { changes: 2, passes: 1 });
  },
);

eachDatabase("a follower is given every change after its cursor once, as they are committed", async (db) => {
  for (let i = 0; i < 3; i += 1) await announceChange(db, { id: randomUUID(), tenantId });
  const after = (await lastChange(db)) - 1;
  const follower = follow(db, after);
  await eventually(
    () => follower.ids.length,
    (length) => length === 1,
  );
  const wanted = [after + 1];
  for (let i = 0; i < 700; i += 1) wanted.push(after + 2 + i);
  await db.transaction(async (trx) => {
    for (let i = 0; i < 700; i += 1) await announceChange(trx, { id: randomUUID(), tenantId });
  });
  db.changes.wake();
  await eventually(
    () => follower.ids.length,
    (length) => length >= wanted.length,
  );
  await follower.stop();
  assert.deepEqual(follower.ids, wanted);
});

eachDatabase("a follower without a cursor begins now, and ends when told to", async (db) => {
  await announceChange(db, { id: randomUUID(), tenantId });
  const last = await lastChange(db);
  const follower = follow(db, null);
  await eventually(
    async () => {
      await announceChange(db, { id: randomUUID(), tenantId });
      return follower.ids.length;
    },
    (length) => length > 0,
  );
  await follower.stop();
  assert.ok(follower.ids.every((id) => id > last));
});

eachDatabase(
  "a follower misses no change that commits after a younger one, and is not held up by it",
  async (db, { databaseUrl }) => {
    const slow = new pg.Client({ connectionString: databaseUrl });
    await slow.connect();
    const follower = follow(db, 0);
    await slow.query("begin");
    const { rows } = await slow.query(
      "insert into deployment_changes (tenant_id, deployment_id) values ($1, $2) returning id",
      [tenantId, randomUUID()],
    );
    const late = Number(rows[0].id);
    await announceChange(db, { id: randomUUID(), tenantId });
    await eventually(
      () => follower.ids,
      (ids) => ids.includes(late + 1),
    );
    assert.ok(!follower.ids.includes(late));
    await slow.query("commit");
    await slow.end();
    await eventually(
      () => follower.ids,
      (ids) => ids.includes(late),
    );
    await follower.stop();
    assert.deepEqual(follower.ids, [late + 1, late]);
  },
  { kinds: ["postgres"] },
);

eachDatabase("changes are trimmed to the newest", async (db) => {
  for (let i = 0; i < 10; i += 1) await announceChange(db, { id: randomUUID(), tenantId });
  assert.equal(await trimChanges(db, 4), 6);
  assert.equal(await trimChanges(db, 4), 0);
  assert.equal((await written(db)).changes, 4);
});

eachDatabase("a wake reaches who listens here, and no one who stopped", async (db) => {
  const heard: string[] = [];
  const stopFirst = db.changes.onWake(() => heard.push("first"));
  const stopSecond = db.changes.onWake(() => heard.push("second"));
  db.changes.wake();
  stopFirst();
  db.changes.wake();
  stopSecond();
  db.changes.wake();
  assert.deepEqual(heard, ["first", "second", "second"]);
});

eachDatabase(
  "a wake reaches other servers, even after their connection was lost, and does not come back",
  async (db, { databaseUrl }) => {
    const other = await openDatabase({ databaseUrl, dataDir: tmpdir(), logger, poolMax: 2 });
    try {
      let [here, there] = [0, 0];
      db.changes.onWake(() => (here += 1));
      other.changes.onWake(() => (there += 1));
      const wakeUntilHeard = () =>
        eventually(
          () => {
            db.changes.wake();
            here -= 1;
            return there;
          },
          (heard) => heard > 0,
        );
      await wakeUntilHeard();
      await sql`select pg_terminate_backend(pid) from pg_stat_activity
                 where application_name = 'pierhead changes' and datname = current_database()`.execute(db.kysely);
      here = 0;
      there = 0;
      await eventually(
        () => Math.min(here, there),
        (heard) => heard > 0,
        { what: "a wake of both after they reconnected" },
      );
      here = 0;
      there = 0;
      await wakeUntilHeard();
      assert.equal(here, 0, "a server does not hear its own wakes from the database");
    } finally {
      await other.close();
    }
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "a storm of wakes is a few notifications, and the last one is never swallowed",
  async (db, { databaseUrl }) => {
    const ear = new pg.Client({ connectionString: databaseUrl });
    let heard = 0;
    ear.on("notification", () => (heard += 1));
    await ear.connect();
    await ear.query("listen pierhead_changes");
    await eventually(
      () => {
        db.changes.wake();
        return heard;
      },
      (count) => count > 0,
    );
    await quiet(() => heard);
    heard = 0;
    const began = performance.now();
    for (let i = 0; i < 5_000; i += 1) {
      db.changes.wake();
      if (i % 100 === 0) await new Promise(setImmediate);
    }
    const stormMs = performance.now() - began;
    await eventually(
      () => heard,
      (count) => count > 0,
    );
    await quiet(() => heard);
    assert.ok(heard <= stormMs / 20 + 2, `${heard} notifications in ${stormMs} ms`);
    await ear.end();
  },
  { kinds: ["postgres"] },
);

/** Collects the ids a follower is given, in order. */
function follow(db: Db, after: number | null) {
  const ids: number[] = [];
  const ending = new AbortController();
  const collect = async () => {
    for await (const batch of followChanges(db, { after, signal: ending.signal }))
      ids.push(...batch.map((one: Change) => one.id));
  };
  const ended = collect();
  return {
    ids,
    async stop() {
      ending.abort();
      await ended;
    },
  };
}

/** Resolves once a count has stood still for a while. */
async function quiet(read: () => number): Promise<void> {
  let [last, since] = [read(), Date.now()];
  await eventually(
    () => {
      if (read() !== last) [last, since] = [read(), Date.now()];
      return Date.now() - since;
    },
    (stillMs) => stillMs > 300,
  );
}

async function written(db: Db): Promise<{ changes: number; passes: number }> {
  const { rows } = await sql<{ changes: number; passes: number }>`
    select (select count(*) from deployment_changes) as changes, (select count(*) from reconcile_queue) as passes`.execute(
    db.kysely,
  );
  return rows[0] as { changes: number; passes: number };
}
