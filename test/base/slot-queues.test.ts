import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type QueueLimits, SlotQueues } from "../../src/base/slot-queues.ts";

/** Signal of a task that stays needed. */
const stays = new AbortController().signal;

const refused = new Error("refused");

function queues(limits: Partial<QueueLimits> = {}) {
  return new SlotQueues({ slots: 1, waitingMax: 10, waitMaxMs: 60_000, refusal: () => refused, ...limits });
}

/** Enters tasks, and notes their names in the order in which they get a slot. */
function entering(turns: SlotQueues) {
  const began: string[] = [];
  return {
    began,
    enter: (name: string, { owner = "a", signal = stays } = {}) =>
      turns.enter(owner, signal).then(() => void began.push(name)),
  };
}

test("tasks of one owner get a slot in the order in which they came, and those of others do not wait for them", async () => {
  const turns = queues({ slots: 2 });
  const { began, enter } = entering(turns);
  await Promise.all([enter("1"), enter("2")]);
  const waiting = ["3", "4", "5", "6"].map((name) => enter(name));
  await enter("other", { owner: "b" });
  assert.deepEqual(began, ["1", "2", "other"]);
  for (const one of waiting) {
    turns.leave("a");
    await one;
    assert.equal(turns.running("a"), 2);
  }
  assert.deepEqual(began, ["1", "2", "other", "3", "4", "5", "6"]);
});

test("a task that waited for too long is refused, and those behind it keep their order", async () => {
  const turns = queues({ waitMaxMs: 30 });
  const { began, enter } = entering(turns);
  await enter("1");
  await assert.rejects(enter("2"), refused);
  const later = [enter("3"), enter("4")];
  for (let left = 0; left < 3; left += 1) turns.leave("a");
  await Promise.all(later);
  assert.deepEqual(began, ["1", "3", "4"]);
  assert.equal(turns.running("a"), 0);
});

test("waiting in another queue counts against the longest wait", async () => {
  const turns = queues();
  await turns.enter("a", stays);
  await assert.rejects(turns.enter("a", stays, 60_000), refused);
});

test("a task that is no longer needed leaves its place to the next one", async () => {
  const turns = queues();
  const { began, enter } = entering(turns);
  await enter("1");
  const client = new AbortController();
  const left = assert.rejects(enter("2", { signal: client.signal }), refused);
  const next = enter("3");
  client.abort();
  await left;
  await assert.rejects(enter("4", { signal: client.signal }), refused, "it left before it could wait");
  turns.leave("a");
  await next;
  assert.deepEqual(began, ["1", "3"]);
});

test("tasks behind a full queue are refused after a pause, and no task takes the place of one that waits", async () => {
  const turns = queues({ waitingMax: 1 });
  const { began, enter } = entering(turns);
  await enter("1");
  const waiting = enter("2");
  const refusal = assert.rejects(enter("3"), refused).then(() => "refused");
  assert.equal(await Promise.race([refusal, sleep(100, "paused")]), "paused");
  await refusal;
  turns.leave("a");
  await waiting;
  assert.deepEqual(began, ["1", "2"]);
});

test("a slot stays taken during the pause after a task", async () => {
  const turns = queues();
  const { began, enter } = entering(turns);
  await enter("1");
  const next = enter("2");
  turns.leave("a", 20);
  await new Promise(setImmediate);
  assert.deepEqual([began, turns.running("a")], [["1"], 1]);
  await next;
  assert.deepEqual(began, ["1", "2"]);
});
