import assert from "node:assert/strict";
import { test } from "node:test";
import { FairSlots } from "../../src/listener/replicas/fair-slots.ts";

const { signal } = new AbortController();

test("lets keys take turns, and none hold more than half of the slots", async () => {
  const limit = new FairSlots(4);
  const order: string[] = [];
  const gives: (() => void)[] = [];
  const ask = (key: string) =>
    void limit.acquire({ key, isUrgent: false, signal }).then((give) => {
      order.push(key);
      gives.push(give);
    });
  for (let count = 0; count < 10; count++) ask("many");
  for (let count = 0; count < 3; count++) ask("few");
  await settle();
  assert.deepEqual(order, ["many", "many", "few", "few"]);
  gives[0]?.();
  gives[0]?.();
  await settle();
  assert.deepEqual(order.slice(4), ["many"], "a slot that is released twice counts once");
  gives[2]?.();
  await settle();
  assert.deepEqual(order.slice(5), ["few"]);
});

test("grants urgent requests first, even when all slots are taken", async () => {
  const limit = new FairSlots(2);
  const held = await Promise.all(["a", "b"].map((key) => limit.acquire({ key, isUrgent: false, signal })));
  await limit.acquire({ key: "a", isUrgent: true, signal });
  let isGranted = false;
  const next = limit.acquire({ key: "c", isUrgent: true, signal }).then(() => {
    isGranted = true;
  });
  await settle();
  assert.equal(isGranted, false, "urgent requests have a limit too");
  held[0]?.();
  await next;
});

test("grants no slot to a request that no longer waits", async () => {
  const limit = new FairSlots(1);
  const give = await limit.acquire({ key: "a", isUrgent: false, signal });
  const leaving = new AbortController();
  const left = limit.acquire({ key: "b", isUrgent: false, signal: leaving.signal });
  leaving.abort(new Error("changed its mind"));
  await assert.rejects(left, /changed its mind/);
  const next = limit.acquire({ key: "c", isUrgent: false, signal });
  give();
  await next;
});

const settle = () => new Promise((resolve) => setImmediate(resolve));
