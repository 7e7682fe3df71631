import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { changeRules, RequestTurns, readRules } from "../../src/api/http/request-turns.ts";
import { ApiError } from "../../src/contract/error.ts";

/** Signal of a client that does not leave. */
const stays = new AbortController().signal;

const isRefused = (error: unknown) =>
  error instanceof ApiError && error.code === "tooManyRequests" && error.status === 429;

/** Counts the reads of one workspace that run at the same time, each for some milliseconds. */
function reads(turns: RequestTurns<unknown>, owner: string, tookMs: number) {
  let running = 0;
  let most = 0;
  const take = (operation: string, signal = stays) =>
    turns.take({ owner, operation, signal }, async () => {
      running += 1;
      most = Math.max(most, running);
      await sleep(tookMs);
      running -= 1;
    });
  return {
    take,
    /** Runs many at once, and returns how many ran at the same time. */
    async mostOf(count: number, operation: string) {
      most = 0;
      await Promise.all(Array.from({ length: count }, () => take(operation)));
      return most;
    },
  };
}

test("four quick reads of a workspace run at the same time, and those of others do not wait for them", async () => {
  const turns = new RequestTurns(readRules("postgres"));
  const busy = reads(turns, "a", 10);
  const asked = busy.mostOf(12, "list");
  const other = reads(turns, "b", 0);
  assert.equal(await Promise.race([other.take("list").then(() => "other"), asked.then(() => "busy")]), "other");
  assert.equal(await asked, 4);
});

test("reads that are slow run one at a time, also those that wait already, and pause for as long as they took", async () => {
  const turns = new RequestTurns(readRules("embedded"));
  const { mostOf, take } = reads(turns, "a", 120);
  await take("list");
  const beganAt = performance.now();
  assert.equal(await mostOf(3, "list"), 1);
  assert.ok(performance.now() - beganAt >= 3 * 120 + 2 * 110, `took only ${performance.now() - beganAt} ms`);
  // The first four of another operation show that it is slow.
  const others = Array.from({ length: 6 }, () => take("other"));
  await Promise.all(others.slice(0, 4));
  const leftAt = performance.now();
  await Promise.all(others);
  assert.ok(performance.now() - leftAt >= 2 * 120, "the last two ran together");
});

test("a slow operation of a workspace does not delay its other operations", async () => {
  const turns = new RequestTurns(readRules("embedded"));
  const slow = reads(turns, "a", 100);
  await slow.take("list");
  const waiting = Promise.all([slow.take("list"), slow.take("list")]);
  const quick = reads(turns, "a", 0).take("get");
  assert.equal(await Promise.race([quick.then(() => "quick"), waiting.then(() => "slow")]), "quick");
  await waiting;
});

test("a read whose client has left leaves the queue and never runs", async () => {
  const turns = new RequestTurns(readRules("embedded"));
  const { take } = reads(turns, "a", 60);
  await take("list");
  const first = take("list");
  const client = new AbortController();
  const left = assert.rejects(
    turns.take({ owner: "a", operation: "list", signal: client.signal }, () => assert.fail("it ran")),
    isRefused,
  );
  client.abort();
  await left;
  await first;
  await take("list");
});

test("a read that waits for too long gets 429, and its time in both queues counts", async () => {
  const turns = new RequestTurns(readRules("embedded"), { waitMaxMs: 300 });
  const { take } = reads(turns, "a", 200);
  // The first four show that the operation is slow. The others then wait for the fifth.
  const asked = Array.from({ length: 6 }, () => take("list"));
  const refused = asked[5]?.catch((error: unknown) => (isRefused(error) ? "refused" : error));
  assert.equal(await Promise.race([refused, asked[4]]), "refused");
  await Promise.all(asked.slice(0, 5));
  await take("list");
});

test("changes with a large answer take turns, others of the same workspace do not", async () => {
  const turns = new RequestTurns(changeRules);
  let running = 0;
  const change = (operation: string, length: number) =>
    turns.take({ owner: "a", operation, signal: stays }, async () => {
      running += 1;
      const beside = running;
      await sleep(20);
      running -= 1;
      return { text: "x".repeat(length), beside };
    });
  const besides = async (operation: string, length: number) =>
    Math.max(...(await Promise.all([1, 2, 3].map(() => change(operation, length)))).map(({ beside }) => beside));
  assert.equal(await besides("small", 1_000), 3);
  assert.equal(await besides("small", 1_000), 3);
  assert.equal(await besides("large", 100_000), 3);
  assert.equal(await besides("large", 100_000), 1);
  assert.equal(await besides("small", 1_000), 3);
});
