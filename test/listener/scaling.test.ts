import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReplicaUsage, RunCounts } from "../../src/compute/compute.ts";
import { SimulatedWorld } from "../../src/compute/simulated.ts";
import type { Assignment, RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { ControlPlane } from "./control-plane.ts";
import { newRun } from "./harness.ts";
import { startVirtualProcess, VirtualClock } from "./virtual-world.ts";

const minuteMs = 60_000;
const deploymentId = "00000000-0000-4000-8000-000000000000";
/** One round, and time for the starts or removals that follow from it. */
const lookMs = 20_000;

test("adds replicas for requests at once, and removes them half an hour after they were last needed", async () => {
  const site = await startScaling({ min_replicas: 1, max_replicas: 5 });
  assert.deepEqual(site.ready(), [site.run.revision_id]);
  for (let count = 0; count < 35; count++) site.request(60 * minuteMs);
  await site.clock.pass(lookMs);
  assert.equal(site.ready().length, 4);
  for (let count = 0; count < 100; count++) site.request(10 * minuteMs);
  await site.clock.pass(lookMs);
  assert.equal(site.ready().length, 5, "the maximum");
  await site.clock.pass(38 * minuteMs);
  assert.equal(site.ready().length, 5);
  await site.clock.pass(3 * minuteMs);
  assert.equal(site.ready().length, 4, "35 requests are still in flight");
  await site.clock.pass(60 * minuteMs);
  assert.equal(site.ready().length, 1);
});

test("adds replicas for high CPU and memory, and changes nothing near the target", async () => {
  let cores = 0;
  let memoryMib = 100;
  const site = await startScaling({ min_replicas: 1, max_replicas: 8 }, (_, atMs) => ({
    cpuSeconds: (atMs / 1_000) * cores,
    memoryMib,
  }));
  memoryMib = 512 * 0.76;
  await site.clock.pass(10 * minuteMs);
  assert.equal(site.ready().length, 1);
  memoryMib = 512;
  await site.clock.pass(lookMs);
  assert.equal(site.ready().length, 2);
  memoryMib = 200;
  cores = 1;
  await site.clock.pass(3 * minuteMs);
  assert.equal(site.ready().length, 8);
});

test("reports restarts once for a deployment that sleeps in between", async () => {
  const site = await startScaling({ min_replicas: 0, max_replicas: 1 }, undefined, { idle_after_ms: 5 * minuteMs });
  for (let times = 0; times < 3; times++) {
    site.request(minuteMs);
    await site.clock.pass(3 * minuteMs);
    assert.equal(site.ids().length, 1);
    if (times === 0) site.crash();
    await site.clock.pass(10 * minuteMs);
    assert.equal(site.ids().length, 0, "asleep");
  }
  assert.equal(site.restarts(), 1);
});

test("keeps the running replicas after a restart of the listener, and starts the next revision with as many", async () => {
  const site = await startScaling({ min_replicas: 1, max_replicas: 5 });
  for (let count = 0; count < 30; count++) site.request(20 * minuteMs);
  await site.clock.pass(lookMs);
  const before = site.ids();
  assert.equal(before.length, 3);
  site.restart();
  await site.clock.pass(5 * minuteMs);
  assert.deepEqual(site.ids(), before);
  const next = newRun({ min_replicas: 1, max_replicas: 2 });
  site.assign({ target: next });
  await site.clock.pass(20 * minuteMs);
  assert.deepEqual(site.ready(), [next.revision_id, next.revision_id], "within its own bounds");
});

test("runs one replica of a server with exclusive state, also after it slept", async () => {
  const alone = await startScaling({ min_replicas: 1, max_replicas: 5, rollout: "handover" });
  for (let count = 0; count < 50; count++) alone.request(5 * minuteMs);
  await alone.clock.pass(2 * minuteMs);
  assert.equal(alone.ready().length, 1);
  const sleeper = await startScaling({ min_replicas: 0, max_replicas: 3 }, undefined, { idle_after_ms: minuteMs });
  for (let count = 0; count < 25; count++) sleeper.request(2 * minuteMs);
  await sleeper.clock.pass(lookMs);
  assert.equal(sleeper.ready().length, 3);
  await sleeper.clock.pass(20 * minuteMs);
  assert.equal(sleeper.ready().length, 0);
  sleeper.request(minuteMs);
  await sleeper.clock.pass(10_000);
  assert.equal(sleeper.ready().length, 1);
});

test("lets a deployment with a queue sleep only while nothing waits, and wakes it for what is due", async () => {
  const parts = { min_replicas: 0, engine: "postgres" } as const;
  const site = await startScaling(parts, undefined, { idle_after_ms: 5 * minuteMs });
  await site.clock.pass(30 * minuteMs);
  assert.equal(site.ready().length, 1, "its engine does not tell what is due");
  site.sayQueue({ running: 1, nextDueInMs: null });
  await site.clock.pass(30 * minuteMs);
  assert.equal(site.ready().length, 1, "a run is in progress");
  const dueAtMs = site.clock.now() + 3 * 60 * minuteMs;
  site.sayQueue({ running: 0, nextDueInMs: () => Math.max(0, dueAtMs - site.clock.now()) });
  await site.clock.pass(10 * minuteMs);
  assert.equal(site.ready().length, 0, "nothing is due for three hours");
  await site.clock.pass(168 * minuteMs);
  assert.equal(site.ready().length, 0, "still two minutes");
  await site.clock.pass(2 * minuteMs);
  assert.equal(site.ready().length, 1, "a cron is due");
  await site.clock.pass(30 * minuteMs);
  assert.equal(site.ready().length, 1, "its run waits");
  site.sayQueue({ running: 0, nextDueInMs: null });
  await site.clock.pass(10 * minuteMs);
  assert.equal(site.ready().length, 0);
  site.request(minuteMs);
  await site.clock.pass(10_000);
  assert.equal(site.ready().length, 1, "a request wakes it, too");
});

test("asks the queue of a sleeping deployment again after a restart of the listener", async () => {
  const parts = { min_replicas: 0, engine: "postgres" } as const;
  const site = await startScaling(parts, undefined, { idle_after_ms: 5 * minuteMs });
  const dueAtMs = site.clock.now() + 2 * 60 * minuteMs;
  site.sayQueue({ running: 0, nextDueInMs: () => Math.max(0, dueAtMs - site.clock.now()) });
  await site.clock.pass(20 * minuteMs);
  assert.equal(site.ready().length, 0);
  site.restart();
  await site.clock.pass(minuteMs);
  assert.equal(site.ready().length, 1, "only a replica knows what is due");
  await site.clock.pass(20 * minuteMs);
  assert.equal(site.ready().length, 0);
  await site.clock.pass(90 * minuteMs);
  assert.equal(site.ready().length, 1, "due");
});

test("adds replicas for background runs where servers report them, and asks others only once", async () => {
  const site = await startScaling({ min_replicas: 1, max_replicas: 5 });
  for (let count = 0; count < 15; count++) site.request(60 * minuteMs);
  site.sayRuns(31);
  await site.clock.pass(lookMs);
  assert.equal(site.ready().length, 4, "31 runs and 15 requests");
  site.sayRuns(0);
  await site.clock.pass(40 * minuteMs);
  assert.equal(site.ready().length, 2);
  site.sayRuns(null);
  await site.clock.pass(2 * minuteMs);
  const asked = site.asked();
  await site.clock.pass(10 * minuteMs);
  assert.equal(site.asked(), asked);
  assert.equal(site.ready().length, 2);
});

test("replaces several replicas by a server with local state as soon as none of them has a run", async () => {
  const site = await startScaling({ min_replicas: 2, max_replicas: 2, drain_timeout_ms: 30 * minuteMs });
  site.sayRuns(0);
  const next = newRun({ rollout: "handover" });
  site.assign({ target: next });
  await site.clock.pass(lookMs);
  assert.deepEqual(site.ready(), [next.revision_id]);
});

/** A listener on virtual time with one settled deployment. */
async function startScaling(
  parts: Parameters<typeof newRun>[0],
  usageOf?: (replicaId: string, atMs: number) => Omit<ReplicaUsage, "replicaId">,
  assignment: Partial<Assignment> = {},
) {
  const clock = new VirtualClock(5);
  const world = new SimulatedWorld({ seed: 5, clock });
  const controlPlane = new ControlPlane(clock);
  const readUsage = async () =>
    world.snapshot().map(({ replicaId }) => ({ replicaId, ...usageOf?.(replicaId, clock.now()) })) as ReplicaUsage[];
  let runs = new Map<string, number | null>();
  let asked = 0;
  let queue = (): RunCounts | null => null;
  const readRuns = async (replicaId: string) => {
    asked += 1;
    return runs.get(world.snapshot().find((one) => one.replicaId === replicaId)?.revisionId ?? "");
  };
  const start = () =>
    startVirtualProcess(clock, world, controlPlane.send, {
      ...{ readRuns, readRunCounts: async () => queue() },
      ...(usageOf !== undefined && { readUsage }),
    });
  let process = start();
  const run: RevisionRun = newRun(parts);
  const { slug } = controlPlane.assign({ deployment_id: deploymentId, target: run, ...assignment });
  const snapshot = () => world.snapshot().filter(({ phase }) => phase === "ready");
  await clock.pass(10_000);
  return {
    clock,
    run,
    request: (lastsMs: number) => process.traffic.request(slug, lastsMs),
    /** The runs that its replicas report from now on. Null: they report none. */
    sayRuns: (count: number | null) => {
      runs = new Map([[run.revision_id, count]]);
    },
    /** What its engine answers about its queue from now on. */
    sayQueue({ running, nextDueInMs: dueIn }: { running: number; nextDueInMs: null | (() => number) }) {
      const totals = { pending: 0, failed: 0, recovered: 0 };
      queue = () => ({ ...totals, running, nextDueInMs: dueIn === null ? null : dueIn() });
    },
    asked: () => asked,
    ready: () => snapshot().map(({ revisionId }) => revisionId),
    crash: () => world.crash(snapshot()[0]?.replicaId ?? assert.fail("no replica is ready")),
    restarts: () => controlPlane.samples.reduce((sum, { restarts }) => sum + restarts, 0),
    ids: () => snapshot().map(({ replicaId }) => replicaId),
    assign: (changes: Partial<Assignment>) => controlPlane.assign({ deployment_id: deploymentId, ...changes }),
    restart() {
      process.kill();
      process = start();
    },
  };
}
