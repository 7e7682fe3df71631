import assert from "node:assert/strict";
import { test } from "node:test";
import { BurstTurns } from "../../src/gateway/burst-turns.ts";
import { eventually } from "../support/eventually.ts";

test("streams with bursts continue one at a time, and their servers take turns", async () => {
  const turns = new BurstTurns({ pauseMs: 20 });
  const [busy, other] = [turns.ofServer(), turns.ofServer()];
  const continued: string[] = [];
  const times: number[] = [];
  const stream = (name: string) => () => {
    continued.push(name);
    times.push(performance.now());
    return true;
  };
  for (const name of ["a1", "a2", "a3"]) busy.takeTurn(stream(name));
  other.takeTurn(stream("b1"));
  assert.deepEqual(continued, []);
  await eventually(
    () => continued.length,
    (count) => count === 4,
  );
  assert.deepEqual(continued, ["a1", "b1", "a2", "a3"]);
  const pauses = times.slice(1).map((time, at) => time - (times[at] ?? 0));
  assert.ok(
    pauses.every((ms) => ms > 15),
    pauses.join(", "),
  );
});

test("a stream that has ended leaves its turn to the next one", async () => {
  const server = new BurstTurns({ pauseMs: 20 }).ofServer();
  const seen: string[] = [];
  const stream = (name: string, isOpen: boolean) => () => {
    seen.push(name);
    setImmediate(() => seen.push(`end of the turn of ${name}`));
    return isOpen;
  };
  server.takeTurn(stream("ended", false));
  server.takeTurn(stream("open", true));
  server.takeTurn(stream("next", true));
  await eventually(
    () => seen.length,
    (count) => count === 6,
  );
  assert.deepEqual(seen, [
    "ended",
    "open",
    "end of the turn of ended",
    "end of the turn of open",
    "next",
    "end of the turn of next",
  ]);
});

test("requests begin at once, and in turns for a while after a burst of the same server", async () => {
  const turns = new BurstTurns({ pauseMs: 1, memoryMs: 100 });
  const [server, other] = [turns.ofServer(), turns.ofServer()];
  let begun = 0;
  const begin = (one = server) =>
    one.begin(() => {
      begun += 1;
      return true;
    });
  begin();
  assert.equal(begun, 1);
  server.seen();
  begin();
  assert.equal(begun, 1, "it waits for its turn");
  begin(other);
  assert.equal(begun, 2);
  await eventually(
    () => begun,
    (count) => count === 3,
  );
  const beginsAtOnce = () => {
    const before = begun;
    begin();
    return begun === before + 1;
  };
  await eventually(beginsAtOnce, Boolean);
});
