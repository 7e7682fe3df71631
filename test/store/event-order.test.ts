import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { EventOrder, gapTimeoutMs } from "../../src/store/events/event-order.ts";

const row = (id: number) => ({ id });
const ids = (rows: { id: number }[]) => rows.map(({ id }) => id);

test("delivers rows without a gap at once, and rows above a gap when it is filled or ends", () => {
  const order = new EventOrder(10);
  assert.deepEqual(ids(order.add([row(11), row(12)], 0)), [11, 12]);
  assert.deepEqual(ids(order.add([row(15), row(14)], 0)), []);
  assert.deepEqual([order.position, order.highest, order.gaps], [12, 15, [13]]);
  order.setOpenTransactions(new Set(["a", "b"]));
  order.setOpenTransactions(new Set(["b", "c"]));
  assert.deepEqual(ids(order.add([], 0)), []);
  order.setOpenTransactions(new Set(["c"]));
  assert.deepEqual(ids(order.add([], 0)), [14, 15]);
  assert.deepEqual([order.position, order.gaps], [15, []]);
});

test("the next poll finds a row committed between the poll and the transaction query", () => {
  const order = new EventOrder(0);
  order.add([row(2)], 0);
  order.setOpenTransactions(new Set());
  assert.deepEqual(ids(order.add([row(1)], 0)), [1, 2]);
});

test("waits for a gap no longer than any transaction may last", () => {
  const order = new EventOrder(0);
  order.add([row(2)], 0);
  order.setOpenTransactions(new Set(["endless"]));
  assert.deepEqual(ids(order.add([], gapTimeoutMs)), []);
  assert.deepEqual(ids(order.add([], gapTimeoutMs + 1)), [2]);
});

test("a jump by millions of numbers costs no memory", () => {
  const order = new EventOrder(0);
  order.add([row(10_000_000)], 0);
  assert.equal(order.gaps.length, 5_000);
  order.setOpenTransactions(new Set());
  assert.deepEqual(ids(order.add([], 0)), [10_000_000]);
});

/** Transactions start, take numbers, and commit or roll back; polls and transaction queries happen at any moment in between. */
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("begin" as const), rows: fc.integer({ min: 1, max: 3 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("end" as const), which: fc.nat(9), commits: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("poll" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("ask" as const) }) },
);

/** A table as its readers see it: numbers are assigned at once, rows appear with the commit. */
class Table {
  readonly committed: number[] = [];
  readonly open: { name: string; ids: number[] }[] = [];
  #taken = 0;
  #names = 0;

  begin(rows: number): void {
    this.#names += 1;
    this.open.push({ name: `t${this.#names}`, ids: Array.from({ length: rows }, () => ++this.#taken) });
  }

  end(which: number, commits: boolean): void {
    const [ended] = this.open.splice(which % Math.max(1, this.open.length), 1);
    if (commits) this.committed.push(...(ended?.ids ?? []));
  }
}

test("whatever transactions do, delivers every committed row once and in order", () => {
  const holds = fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
    const [table, order, given] = [new Table(), new EventOrder(0), [] as number[]];
    const poll = () => {
      const seen = table.committed.filter((id) => id > order.highest || order.gaps.includes(id));
      given.push(...ids(order.add(seen.map(row), 0)));
      assert.ok(table.committed.every((id) => id > order.position || given.includes(id)));
    };
    const ask = () => order.setOpenTransactions(new Set(table.open.map(({ name }) => name)));
    for (const one of steps) {
      if (one.kind === "poll") poll();
      else if (one.kind === "ask") ask();
      else if (one.kind === "begin") table.begin(one.rows);
      else table.end(one.which, one.commits);
    }
    while (table.open.length > 0) table.end(0, true);
    for (let round = 0; round < 3; round += 1) {
      poll();
      ask();
    }
    assert.deepEqual(
      given,
      table.committed.toSorted((a, b) => a - b),
    );
  });
  fc.assert(holds, { numRuns: 2_000 });
});
