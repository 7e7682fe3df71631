import assert from "node:assert/strict";
import { batched } from "../../src/store/engine/batched.ts";
import type { Db, Trx } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { outsideTransaction } from "../../src/store/engine/statement-pool.ts";
import { eachDatabase } from "../support/database.ts";

/** Squares numbers in the database, and records the size of each statement. */
function squares() {
  const sizes: number[] = [];
  const square = batched(async (db: Db | Trx, numbers: number[]) => {
    sizes.push(numbers.length);
    const { rows } = await db.query<{ n: number; square: number }>(sql`
      select n, (1000 / n) * 0 + n * n as square from unnest(${numbers}::int[]) as n order by n desc`);
    return numbers.map((n) => rows.find((row) => row.n === n)?.square);
  });
  return { sizes, square };
}

eachDatabase("concurrent calls share one statement, and each gets its own result", async (db) => {
  const { sizes, square } = squares();
  const numbers = Array.from({ length: 50 }, (_, index) => index + 1);
  const answers = await Promise.all(numbers.map((n) => square(db, n)));
  assert.deepEqual(
    answers,
    numbers.map((n) => n * n),
  );
  assert.deepEqual(sizes, [50]);
});

eachDatabase("calls during a statement are sent together when it ends", async (db) => {
  const { sizes, square } = squares();
  const first = square(db, 1);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(sizes, [1]);
  await Promise.all([first, square(db, 2), square(db, 3), square(db, 4)]);
  assert.deepEqual(sizes, [1, 3]);
});

eachDatabase(
  "with two allowed in flight, a second statement is sent beside the first if a connection is free",
  async (db) => {
    const sizes: number[] = [];
    const held = Promise.withResolvers<void>();
    const hold = async (_: Db | Trx, items: number[]) => {
      sizes.push(items.length);
      await held.promise;
      return items;
    };
    const echo = batched(hold, { atOnce: 2 });
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    const first = echo(db, 1);
    await turn();
    const second = echo(db, 2);
    await turn();
    const isAlone = db.kind === "embedded";
    assert.deepEqual(sizes, isAlone ? [1] : [1, 1]);
    const others = [echo(db, 3), echo(db, 4)];
    held.resolve();
    assert.deepEqual(await Promise.all([first, second, ...others]), [1, 2, 3, 4]);
    assert.deepEqual(sizes, isAlone ? [1, 3] : [1, 1, 2]);
  },
);

eachDatabase("an invalid item fails alone", async (db) => {
  const { square } = squares();
  const answers = await Promise.allSettled([2, 0, 3].map((n) => square(db, n)));
  assert.deepEqual(
    answers.map((answer) => (answer.status === "fulfilled" ? answer.value : (answer.reason as { code: string }).code)),
    [4, "22012", 9],
  );
});

eachDatabase(
  "nothing is batched inside a transaction, and a call that bypasses the transaction is refused",
  async (db) => {
    const { sizes, square } = squares();
    const asked = await db.transaction(async (trx) => {
      await assert.rejects(async () => square(db, 5), /inside a transaction/);
      return [await square(trx, 5), await square(trx, 6)];
    });
    assert.deepEqual(asked, [25, 36]);
    assert.deepEqual(sizes, [1, 1]);
  },
);

eachDatabase(
  "a statement that waits for a lock does not hold back later calls",
  async (db) => {
    const ask = batched(async (on: Db | Trx, items: number[]) => {
      await on.query(sql`select pg_advisory_xact_lock(${items[0]}::int)`);
      return items;
    });
    const { slow } = await db.transaction(async (trx) => {
      await trx.query(sql`select pg_advisory_xact_lock(1)`);
      const slow = outsideTransaction(() => ask(db, 1));
      await new Promise((resolve) => setImmediate(resolve));
      // The first statement waits for a lock until the second one has its result.
      assert.equal(await outsideTransaction(() => ask(db, 2)), 2);
      return { slow };
    });
    assert.equal(await slow, 1);
  },
  { kinds: ["postgres"] },
);
