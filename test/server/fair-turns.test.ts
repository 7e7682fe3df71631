import assert from "node:assert/strict";
import { test } from "node:test";
import { FairTurns } from "../../src/server/fair-turns.ts";
import { eventually } from "../support/eventually.ts";

test("begins a request at once if no other has taken the turn", () => {
  const turns = new FairTurns();
  let begun = 0;
  assert.ok(
    turns.take("a", () => {
      begun += 1;
    }),
  );
  assert.equal(begun, 1);
});

test("begins the requests of each sender in order, and those of senders in turn", async () => {
  const turns = new FairTurns();
  const begun: string[] = [];
  const send = (sender: string, count: number) => {
    for (let at = 0; at < count; at += 1) turns.take(sender, () => void begun.push(`${sender}${at}`));
  };
  send("a", 100);
  send("b", 2);
  send("c", 1);
  await eventually(
    async () => begun.length,
    (length) => length === 103,
  );
  assert.deepEqual(
    begun.filter((name) => name.startsWith("a")),
    Array.from({ length: 100 }, (_, at) => `a${at}`),
  );
  const waited = begun.slice(16, 22);
  assert.deepEqual(waited, ["a16", "b0", "c0", "a17", "b1", "a18"]);
});

test("refuses a request of a sender of whom thousands wait, and none of another", () => {
  const turns = new FairTurns();
  const taken = Array.from({ length: 2_100 }, () => turns.take("a", () => {}));
  assert.ok(taken.slice(0, 2_000).every(Boolean));
  assert.equal(taken.at(-1), false);
  assert.ok(turns.take("b", () => {}));
});
