import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { enqueueAndWake } from "../../src/store/queue/enqueue.ts";
import { eachDatabase } from "../support/database.ts";
import { isListening } from "./change-subscriber.ts";

const announce = (db: Db) => enqueueAndWake(db, randomUUID());

async function count(db: Db): Promise<number> {
  const { rows } = await db.query<{ count: number }>(sql`select count(*) as count from reconcile_queue`);
  return rows[0]?.count ?? Number.NaN;
}

eachDatabase("a unit commits every statement sent while it runs, or none of them", async (db) => {
  const act = async () => {
    await announce(db);
    await db.transaction((trx) => enqueueAndWake(trx, randomUUID()));
    await db.atomically(() => announce(db));
    assert.equal(await count(db), 3);
  };
  const undone = db.atomically(async () => {
    await act();
    throw new Error("undo");
  });
  await assert.rejects(undone, /undo/);
  assert.equal(await count(db), 0);
  await db.atomically(act);
  assert.equal(await count(db), 3);
});

eachDatabase("a unit wakes subscribers only after its commit, and never after a rollback", async (db) => {
  await isListening(db);
  const seen: Promise<number>[] = [];
  const stop = db.changes.onWake(() => seen.push(count(db)));
  await db.atomically(async () => {
    await announce(db);
    assert.equal(seen.length, 0);
  });
  assert.deepEqual(await Promise.all(seen), [1]);
  await assert.rejects(
    db.atomically(async () => {
      await announce(db);
      throw new Error("undo");
    }),
  );
  stop();
  assert.equal(seen.length, 1);
});

eachDatabase("a failed statement rolls the unit back, and the next unit starts clean", async (db) => {
  const failing = () => db.query(sql`select 1 / ${0}::int`);
  await assert.rejects(
    db.atomically(async () => {
      await announce(db);
      await failing();
    }),
    /division by zero/,
  );
  await assert.rejects(
    db.atomically(async () => {
      await announce(db);
      await failing().catch(() => undefined);
    }),
  );
  await db.atomically(() => announce(db));
  assert.equal(await count(db), 1);
});

eachDatabase("work that outlives its unit continues on connections of its own", async (db) => {
  let late: Promise<void> | undefined;
  let begin = () => {};
  const ended = new Promise<void>((resolve) => {
    begin = resolve;
  });
  await db.atomically(async () => {
    await announce(db);
    late = ended.then(() => announce(db));
  });
  begin();
  await late;
  assert.equal(await count(db), 2);
});

eachDatabase(
  "a unit's time limit applies to its statements, and a different limit inside it is refused",
  async (db) => {
    const limit = async () => {
      const { rows } = await db.query<{ limit: string }>(sql`select current_setting('statement_timeout') as limit`);
      return rows[0]?.limit;
    };
    const timeoutMs = 600_000;
    const inside = () => db.transaction(limit, { timeoutMs });
    assert.equal(await db.atomically(inside, { timeoutMs }), "10min");
    assert.equal(await db.atomically(limit), "30s");
    await assert.rejects(db.atomically(inside), /pass it to the enclosing atomically/);
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "a unit that PostgreSQL rolled back because of a deadlock runs again",
  async (db) => {
    await db.query(sql`create table counters (id integer primary key, value integer not null)`);
    await db.query(sql`insert into counters values (1, 0), (2, 0)`);
    const raise = (id: number) => db.query(sql`update counters set value = value + 1 where id = ${id}`);
    let runs = 0;
    const holding = Promise.withResolvers<void>();
    const both = (first: number, second: number) =>
      db.atomically(async () => {
        await raise(first);
        runs += 1;
        if (runs === 2) holding.resolve();
        await holding.promise;
        await raise(second);
      });
    await Promise.all([both(1, 2), both(2, 1)]);
    const { rows } = await db.query<{ value: number }>(sql`select value from counters order by id`);
    assert.ok(runs >= 3, `${runs} runs`);
    assert.deepEqual(
      rows.map(({ value }) => value),
      [2, 2],
    );
  },
  { kinds: ["postgres"] },
);
