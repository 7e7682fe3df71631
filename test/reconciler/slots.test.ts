import assert from "node:assert/strict";
import { test } from "node:test";
import { NoFreeSlot, Slots, Stagger } from "../../src/reconciler/slots.ts";

test("rejects a call without a free slot with a retry delay, and frees the slot of work that failed", async () => {
  const slots = new Slots(2);
  const fail = Promise.withResolvers<never>();
  const held = [slots.hold(() => fail.promise), slots.hold(() => fail.promise)];
  await assert.rejects(
    slots.hold(async () => 3),
    (error) => error instanceof NoFreeSlot && error.retryInMs >= 500,
  );
  fail.reject(new Error("the server is away"));
  for (const one of held) await assert.rejects(one, /away/);
  assert.equal(await slots.hold(async () => 4), 4);
});

test("leaves slots for other workspaces, and for calls of the operator, when one workspace takes all it may", async () => {
  const slots = new Slots(4, 0.5);
  const { promise: hanging, resolve: end } = Promise.withResolvers<void>();
  const held = [slots.hold(() => hanging, "one"), slots.hold(() => hanging, "one")];
  await assert.rejects(
    slots.hold(async () => {}, "one"),
    NoFreeSlot,
  );
  held.push(
    slots.hold(() => hanging, "two"),
    slots.hold(() => hanging),
  );
  await assert.rejects(
    slots.hold(async () => {}, "three"),
    NoFreeSlot,
    "all are taken",
  );
  end();
  await Promise.all(held);
  assert.equal(await slots.hold(async () => 1, "one"), 1);
});

test("spreads the retries of a thousand waiting callers, so that waiting costs the same however many there are", () => {
  const stagger = new Stagger();
  const times = Array.from({ length: 1_000 }, () => stagger.nextInMs(1_000));
  assert.ok((times[0] as number) >= 500 && (times[0] as number) <= 501);
  assert.ok((times[999] as number) >= 5_000, `the last one retries in ${times[999]} ms`);
  for (const [index, time] of times.entries()) assert.ok(index === 0 || time > (times[index - 1] as number));
});
