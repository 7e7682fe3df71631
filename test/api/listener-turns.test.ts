import assert from "node:assert/strict";
import { test } from "node:test";
import { ListenerTurns } from "../../src/api/listeners/listener-turns.ts";
import { ApiError } from "../../src/contract/error.ts";
import { forWorkspace } from "../../src/store/engine/connection-turns.ts";

/** Signal of a sender that does not leave. */
const stays = new AbortController().signal;

/** Work that the test ends. */
function work(name: string, began: string[]) {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const act = () => {
    began.push(name);
    return promise;
  };
  return { act, end: resolve, fail: reject };
}

test("calls of one listener take turns, also after a failure, and those of others run meanwhile", async () => {
  const turns = new ListenerTurns("own");
  const began: string[] = [];
  const [first, second, other] = ["first", "second", "other"].map((name) => work(name, began));
  assert.ok(first && second && other);
  const failed = assert.rejects(turns.take("a", first.act, stays), /gone/);
  const next = turns.take("a", second.act, stays);
  const beside = turns.take("b", other.act, stays);
  other.end();
  await beside;
  assert.deepEqual(began, ["first", "other"]);
  first.fail(new Error("gone"));
  await failed;
  second.end();
  await next;
  assert.deepEqual(began, ["first", "other", "second"]);
});

test("calls of the server's own listener, which serves all workspaces, do not wait for each other", async () => {
  const turns = new ListenerTurns("own");
  const began: string[] = [];
  const [first, second] = ["first", "second"].map((name) => work(name, began));
  assert.ok(first && second);
  const both = [turns.take("own", first.act, stays), turns.take("own", second.act, stays)];
  assert.deepEqual(began, ["first", "second"]);
  first.end();
  second.end();
  await Promise.all(both);
});

const isRefused = (error: unknown) =>
  error instanceof ApiError && error.code === "tooManyRequests" && error.status === 429;

test("a call whose sender has left leaves the queue and never runs, and the next one takes its turn", async () => {
  const turns = new ListenerTurns("own");
  const began: string[] = [];
  const [first, second, third] = ["first", "second", "third"].map((name) => work(name, began));
  assert.ok(first && second && third);
  const running = turns.take("a", first.act, stays);
  const sender = new AbortController();
  const left = assert.rejects(turns.take("a", second.act, sender.signal), isRefused);
  const last = turns.take("a", third.act, stays);
  sender.abort();
  await left;
  await assert.rejects(turns.take("a", second.act, sender.signal), isRefused, "it left before it could wait");
  first.end();
  third.end();
  await Promise.all([running, last]);
  assert.deepEqual(began, ["first", "third"]);
});

test("a call that waits for too long gets 429, and the next one takes its turn", async () => {
  const turns = new ListenerTurns("own", { waitMaxMs: 400 });
  const began: string[] = [];
  const blocked = work("blocked", began);
  const running = turns.take("a", blocked.act, stays);
  const late = await turns.take("a", () => assert.fail("it ran"), stays).catch((error: unknown) => error);
  assert.ok(isRefused(late), String(late));
  blocked.end();
  await running;
  assert.equal(await turns.take("a", async () => "served", stays), "served");
});

test("a listener whose calls do not end can let only so many wait, and other listeners do not notice", async () => {
  const turns = new ListenerTurns("own");
  const blocked = work("blocked", []);
  const running = turns.take("a", blocked.act, stays);
  const leaving = new AbortController();
  const waiting = Array.from({ length: 300 }, () => turns.take("a", async () => "served", leaving.signal));
  const settled = Promise.allSettled(waiting);
  const early = await Promise.race([Promise.any(waiting.map((one) => one.then(String, isRefused))), settled]);
  assert.equal(early, true, "those beyond the limit are refused while the others wait");
  assert.equal(await turns.take("b", async () => "served", stays), "served");
  leaving.abort();
  blocked.end();
  await Promise.all([running, settled]);
  assert.equal(await turns.take("a", async () => "served", stays), "served");
});

test("four calls of all listeners of one workspace run at the same time, and those of other workspaces beside them", async () => {
  const turns = new ListenerTurns("own");
  const began: string[] = [];
  const works = ["a", "b", "c", "d", "e"].map((name) => ({ name, ...work(name, began) }));
  const other = work("other", began);
  const taken = works.map(({ name, act }) => forWorkspace("one", () => turns.take(name, act, stays)));
  const beside = forWorkspace("two", () => turns.take("f", other.act, stays));
  other.end();
  await beside;
  assert.deepEqual(began, ["a", "b", "c", "d", "other"]);
  for (const { end } of works) end();
  await Promise.all(taken);
  assert.equal(began.at(-1), "e");
});
