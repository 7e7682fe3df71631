import assert from "node:assert/strict";
import { test } from "node:test";
import { NoPlace, Places, Stagger } from "../../src/reconciler/slots.ts";

test("what finds no place is told when to come back, and a place is free again when its work has failed", async () => {
  const places = new Places(2);
  const fail = Promise.withResolvers<never>();
  const held = [places.hold(() => fail.promise), places.hold(() => fail.promise)];
  await assert.rejects(
    places.hold(async () => 3),
    (error) => error instanceof NoPlace && error.retryInMs >= 500,
  );
  fail.reject(new Error("the server is away"));
  for (const one of held) await assert.rejects(one, /away/);
  assert.equal(await places.hold(async () => 4), 4);
});

test("a thousand that wait come back one after the other, so that waiting costs the same however many there are", () => {
  const stagger = new Stagger();
  const times = Array.from({ length: 1_000 }, () => stagger.nextInMs(1_000));
  assert.ok((times[0] as number) >= 500 && (times[0] as number) <= 501);
  assert.ok((times[999] as number) >= 5_000, `the last comes back in ${times[999]} ms`);
  for (const [index, time] of times.entries()) assert.ok(index === 0 || time > (times[index - 1] as number));
});
