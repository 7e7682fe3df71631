import assert from "node:assert/strict";
import { test } from "node:test";
import { BuildSlots } from "../../src/reconciler/builds/build-slots.ts";

const build = (tenantId: string, id: number) => ({ tenantId, id: `${tenantId}${id}` });

test("a workspace alone uses all build slots, one among others leaves the last slot", () => {
  for (const [isShared, count] of [
    [false, 3],
    [true, 2],
  ] as const) {
    const slots = new BuildSlots(3, () => 0);
    for (let id = 0; id < count; id += 1) assert.equal(slots.take(build("a", id), isShared), null);
    assert.match(slots.take(build("a", 9), isShared)?.because ?? "", /^waiting for a build slot/);
    assert.equal(slots.take(build("b", 0), isShared) === null, isShared);
  }
});

test("says how many builds of the workspace run while one waits", () => {
  const slots = new BuildSlots(3, () => 0);
  for (const id of [1, 2]) slots.take(build("a", id), true);
  const own = "waiting for a build slot of your workspace: 2 builds of your workspace are running";
  assert.equal(slots.findWait(build("a", 3), true)?.because, own);
  slots.take(build("b", 1), true);
  const all = "waiting for a build slot, all 3 are taken: 1 build of your workspace is running";
  assert.equal(slots.findWait(build("b", 2), true)?.because, all);
});

test("a free slot goes to the waiting workspace with the fewest running builds, however many others ask first", () => {
  const slots = new BuildSlots(4, () => 0);
  for (const id of [1, 2, 3]) slots.take(build("a", id), true);
  slots.take(build("b", 1), true);
  for (let id = 10; id < 500; id += 1) assert.notEqual(slots.take(build("a", id), true), null);
  assert.notEqual(slots.take(build("c", 1), true), null);
  slots.release(build("a", 1));
  assert.match(slots.take(build("a", 10), true)?.because ?? "", /another workspace's turn/);
  assert.equal(slots.take(build("c", 1), true), null);
});

test("workspaces that wait with as many builds take turns", () => {
  let nowMs = 0;
  const slots = new BuildSlots(1, () => nowMs);
  slots.take(build("a", 0), true);
  const order: string[] = [];
  let running = build("a", 0);
  for (let turn = 1; turn <= 6; turn += 1) {
    nowMs += 1_000;
    for (const tenant of ["a", "b", "c"]) slots.findWait(build(tenant, turn), true);
    slots.release(running);
    for (const tenant of ["a", "b", "c"]) {
      if (slots.take(build(tenant, turn), true) !== null) continue;
      order.push(tenant);
      running = build(tenant, turn);
    }
  }
  assert.deepEqual(order, ["b", "c", "a", "b", "c", "a"]);
});

test("a build that no longer asks does not hold a slot back", () => {
  let nowMs = 0;
  const slots = new BuildSlots(1, () => nowMs);
  slots.take(build("a", 1), true);
  slots.findWait(build("b", 1), true);
  slots.release(build("a", 1));
  assert.notEqual(slots.take(build("a", 2), true), null);
  nowMs += 10_000;
  assert.equal(slots.take(build("a", 2), true), null);
});

test("many waiting builds of a workspace do not delay the next attempt of another", () => {
  const slots = new BuildSlots(1, () => 0);
  slots.take(build("a", 0), true);
  let last = 0;
  for (let id = 1; id < 1_000; id += 1) last = slots.findWait(build("a", id), true)?.retryInMs ?? 0;
  assert.ok(last > 4_000, `${last} ms`);
  assert.equal(slots.findWait(build("b", 1), true)?.retryInMs, 500);
});
