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
    running: () => running,
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

test("costly reads run one at a time, and pause for as long as they took", async () => {
  const turns = new RequestTurns(readRules("embedded"));
  const order: string[] = [];
  const read = (name: string) =>
    turns.take({ owner: "a", operation: "list", signal: stays }, async () => {
      order.push(`${name} begins`);
      await sleep(120);
      order.push(`${name} ends`);
    });
  await read("first");
  order.length = 0;
  const half = () => sleep(60).then(() => order.push("half of the pause"));
  await Promise.all([read("second").then(half), read("third")]);
  assert.deepEqual(order, ["second begins", "second ends", "half of the pause", "third begins", "third ends"]);
});

test("reads that wait already run one at a time when the first ones were costly", async () => {
  const { take, running } = reads(new RequestTurns(readRules("embedded")), "a", 120);
  const asked = Array.from({ length: 6 }, () => take("list"));
  await Promise.all(asked.slice(0, 4));
  const most = await Promise.all(asked.slice(4).map((one) => one.then(running)));
  assert.deepEqual(most, [0, 0], "each ends before the next begins");
});

test("a costly operation of a workspace does not delay its other operations", async () => {
  const turns = new RequestTurns(readRules("embedded"));
  const costly = reads(turns, "a", 100);
  await costly.take("list");
  const waiting = Promise.all([costly.take("list"), costly.take("list")]);
  const quick = reads(turns, "a", 0).take("get");
  assert.equal(await Promise.race([quick.then(() => "quick"), waiting.then(() => "costly")]), "quick");
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
  // The first four show that the operation is costly. The others then wait for the fifth.
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
