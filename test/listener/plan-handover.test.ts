import assert from "node:assert/strict";
import { test } from "node:test";
import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { PlanWorld, revisionRun } from "./plan-world.ts";

const drain_timeout_ms = 180_000;

/** A deployment whose prepared target is about to take over the local state of the serving revision. */
function handingOver(parts: Partial<RevisionRun> = {}): PlanWorld {
  const runOf = (name: string) => revisionRun(name, { rollout: "handover", drain_timeout_ms, ...parts });
  const world = new PlanWorld({ target: runOf("a") });
  world.settleDown();
  world.assign({ target: runOf("b") });
  world.pass();
  world.preparation = { revisionId: "b", phase: "done", reason: "StartError", message: "" };
  return world;
}

/** Runs passes a few milliseconds apart, in which the servers answer about their runs, until requests wait. */
function hold(world: PlanWorld): void {
  world.pass();
  world.nowMs += 5;
  assert.equal(world.pass().route?.state, "held");
  world.nowMs += 5;
}

const removalsOf = (world: PlanWorld) => world.pass().actions.flatMap((one) => (one.kind === "remove" ? [one] : []));

test("asks a server early not to wait for runs, and gives it time to write its state", () => {
  for (const [runs, lastCallAfterMs] of [
    [0, 1_000],
    [null, 8_000],
  ] as const) {
    const world = handingOver();
    world.runs = runs;
    hold(world);
    const removals = [...removalsOf(world), ...removalsOf(world)];
    assert.deepEqual(
      removals.map(({ times }) => times),
      [{ graceMs: 30_000, lastCallAfterMs }],
    );
  }
});

test("lets requests through again when the server does not answer about its runs", () => {
  const world = handingOver();
  world.runs = 0;
  hold(world);
  world.runs = undefined;
  assert.deepEqual([removalsOf(world), removalsOf(world)], [[], []]);
  world.nowMs += 1_000;
  assert.equal(world.pass().route?.state, "open");
  world.nowMs += 1_000;
  world.runs = 0;
  hold(world);
  assert.equal([...removalsOf(world), ...removalsOf(world)].length, 1);
});

test("waits for runs at most half of the start timeout, so that the target has time to start", () => {
  const world = handingOver({ start_timeout_ms: 60_000 });
  world.runs = 1;
  world.pass();
  world.nowMs += 29_999;
  assert.equal(world.pass().route?.state, "open");
  world.nowMs += 1;
  assert.equal(world.pass().route?.state, "held");
});

test("does not wait longer for a stopping server after the listener restarts", () => {
  const world = handingOver();
  hold(world);
  assert.equal(removalsOf(world).length, 1);
  world.restart();
  assert.deepEqual(
    removalsOf(world).map(({ times }) => times),
    [{ graceMs: 30_000, lastCallAfterMs: 8_000 }],
  );
});
