import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReplicaSpec } from "../../src/compute/compute.ts";
import { type Clock, openSimulatedCompute, SimulatedWorld } from "../../src/compute/simulated.ts";
import type { Artifact } from "../../src/contract/listeners/assignment.ts";
import { anySpec, brokenCause, computeConformance } from "./conformance.ts";

const artifact: Artifact = {
  kind: "directory",
  digest: "sha256:0",
  path: "/nowhere",
  start: { runner: "command", argv: ["true"], cwd: "." },
  health_path: "/ok",
  rollout: "rolling",
};
const fates = { healthy: "ready", broken: "exit", hanging: "hang" };

computeConformance("simulated", async () => {
  const world = new SimulatedWorld({ seed: 1 });
  return {
    open: async () => openSimulatedCompute({ world }),
    answers: false,
    spec: (kind) => anySpec(artifact, { SIMULATE_START: fates[kind], SIMULATE_CAUSE: brokenCause }),
    end: async () => {},
  };
});

/** Virtual time that advances only on request, timer by timer. */
function virtualClock(): Clock & { runUntil(ms: number): void } {
  let now = 0;
  let timers: { at: number; run: () => void }[] = [];
  return {
    now: () => now,
    setTimeout(run, delayMs) {
      const timer = { at: now + delayMs, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    runUntil(ms) {
      for (;;) {
        const next = timers.filter((timer) => timer.at <= ms).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        timers = timers.filter((timer) => timer !== next);
        now = next.at;
        next.run();
      }
      now = ms;
    },
  };
}

const specs = (count: number): ReplicaSpec[] =>
  Array.from({ length: count }, (_, index) => ({ ...anySpec(artifact), replicaId: `replica-${index}` }));

async function historyOf(seed: number, replicas: ReplicaSpec[]) {
  const clock = virtualClock();
  const faults = { startFails: 0.2, startHangs: 0.1, ensureRefuses: 0.3, ensureLies: 0.2, lifetimeMs: 20_000 };
  const compute = openSimulatedCompute({ seed, faults, clock });
  const history: Record<string, string[]> = {};
  for (const spec of replicas) {
    const refusal = await compute.ensure(spec, AbortSignal.timeout(1_000)).catch((error: Error) => error.message);
    history[spec.replicaId] = [String(refusal)];
  }
  for (const at of [20, 100, 10_000, 70_000]) {
    clock.runUntil(at);
    for (const { replicaId, phase } of await compute.observe(AbortSignal.timeout(1_000))) {
      history[replicaId]?.push(phase);
    }
  }
  await compute.close();
  return history;
}

test("simulated: a seed decides the fate of each replica, independent of the order of the calls", async () => {
  const replicas = specs(50);
  const first = await historyOf(7, replicas);
  assert.deepEqual(await historyOf(7, replicas.toReversed()), first);
  assert.notDeepEqual(await historyOf(8, replicas), first);
  const phases = new Set(Object.values(first).flat());
  for (const seen of ["starting", "ready", "exited", "undefined"]) assert.ok(phases.has(seen), seen);
});

test("simulated: a lying ensure has started the replica, a refusing ensure has not", async () => {
  for (const [fault, count] of [
    ["ensureLies", 1],
    ["ensureRefuses", 0],
  ] as const) {
    const compute = openSimulatedCompute({ seed: 1, faults: { [fault]: 1 } });
    await assert.rejects(compute.ensure(anySpec(artifact), AbortSignal.timeout(1_000)));
    assert.equal((await compute.observe(AbortSignal.timeout(1_000))).length, count);
  }
});

test("simulated: a requested crash ends the replica with the given exit", async () => {
  const clock = virtualClock();
  const compute = openSimulatedCompute({ seed: 1, clock });
  const spec = anySpec(artifact);
  await compute.ensure(spec, AbortSignal.timeout(1_000));
  clock.runUntil(1_000);
  compute.world.crash(spec.replicaId, { reason: "OutOfMemory", exitCode: 137 });
  const [state] = await compute.observe(AbortSignal.timeout(1_000));
  assert.equal(state?.phase, "exited");
  assert.equal(state.exit?.reason, "OutOfMemory");
  assert.equal(state.address, undefined);
});

test("simulated: observing 10,000 unchanged replicas returns the same list", async () => {
  const clock = virtualClock();
  const compute = openSimulatedCompute({ seed: 1, clock });
  for (const spec of specs(10_000)) await compute.ensure(spec, new AbortController().signal);
  const first = await compute.observe(AbortSignal.timeout(1_000));
  assert.equal(first.length, 10_000);
  assert.equal(await compute.observe(AbortSignal.timeout(1_000)), first);
});
