import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { SimulatedWorld } from "../../src/compute/simulated.ts";
import { ControlPlane } from "./control-plane.ts";
import { newRun } from "./harness.ts";
import { startVirtualProcess, VirtualClock } from "./virtual-world.ts";

async function startFollowing() {
  const clock = new VirtualClock(1);
  const world = new SimulatedWorld({ seed: 1, clock });
  const controlPlane = new ControlPlane(clock);
  controlPlane.heartbeatS = 10;
  controlPlane.leaseTtlS = 30;
  const { listener } = startVirtualProcess(clock, world, controlPlane.send, {}, controlPlane.openStream);
  const deploy = () => {
    const target = newRun();
    controlPlane.assign({ deployment_id: randomUUID(), target });
    return target.revision_id;
  };
  const runs = (revisionId: string) => world.snapshot().some((replica) => replica.revisionId === revisionId);
  await clock.pass(1_000);
  assert.ok(listener.health().isListed);
  return { clock, controlPlane, listener, deploy, runs };
}

test("calls the control plane once in 30 s while it follows a stream without changes", async () => {
  const { clock, controlPlane, listener } = await startFollowing();
  const before = controlPlane.calls.length;
  await clock.pass(600_000);
  const asked = controlPlane.calls.slice(before).map(({ path }) => path);
  assert.equal(asked.filter((path) => path === "/dp/v1/heartbeat").length, 20);
  assert.ok(asked.length <= 21, `and compares what it holds once in 10 minutes: ${asked}`);
  assert.ok(listener.health().isLeading);
});

test("receives assignments by the stream without a poll", async () => {
  const { clock, controlPlane, deploy, runs } = await startFollowing();
  const revisionId = deploy();
  await clock.pass(1_000);
  assert.ok(runs(revisionId));
  assert.equal(
    controlPlane.calls.filter(({ path }) => path === "/dp/v1/desired").length,
    1,
    "the list at the beginning",
  );
});

test("detects a stuck stream by a heartbeat, and reconnects to a control plane that was away", async () => {
  const { clock, controlPlane, deploy, runs } = await startFollowing();
  controlPlane.isStreamStuck = true;
  await clock.pass(20_000);
  const first = deploy();
  await clock.pass(5_000);
  controlPlane.isStreamStuck = false;
  await clock.pass(40_000);
  assert.ok(runs(first));
  controlPlane.goAway();
  const second = deploy();
  await clock.pass(60_000);
  assert.ok(!runs(second));
  controlPlane.isAway = false;
  await clock.pass(60_000);
  assert.ok(runs(second));
  assert.equal(controlPlane.calls.at(-1)?.path, "/dp/v1/heartbeat");
});

test("ends a stream and stops acting when a newer session exists", async () => {
  const { clock, controlPlane, listener } = await startFollowing();
  controlPlane.epoch += 1;
  await clock.pass(11_000);
  assert.equal(listener.health().isLeading, false);
});

test("falls back to long polls where streams bring nothing", async () => {
  const clock = new VirtualClock(2);
  const world = new SimulatedWorld({ seed: 2, clock });
  const controlPlane = new ControlPlane(clock);
  const silent = { async *[Symbol.asyncIterator]() {} };
  startVirtualProcess(clock, world, controlPlane.send, {}, async () => ({ messages: silent }));
  await clock.pass(10_000);
  const target = newRun();
  controlPlane.assign({ deployment_id: randomUUID(), target });
  await clock.pass(1_000);
  assert.ok(world.snapshot().some(({ revisionId }) => revisionId === target.revision_id));
});
