import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedWorld } from "../../src/compute/simulated.ts";
import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { ControlPlane } from "./control-plane.ts";
import { newRun } from "./harness.ts";
import { hostile, startVirtualProcess, VirtualClock, type VirtualProcess } from "./virtual-world.ts";

const seeds = Number(process.env["PIERHEAD_SIMULATION_SEEDS"] ?? 20);
const firstSeed = Number(process.env["PIERHEAD_SIMULATION_SEED"] ?? 1);
const deploymentsMax = 6;

test(`settles ${seeds} seeded histories of a lying engine, dying listeners and an absent control plane`, async (t) => {
  for (let seed = firstSeed; seed < firstSeed + seeds; seed++) {
    try {
      await simulate(seed);
    } catch (error) {
      t.diagnostic(`failing seed: PIERHEAD_SIMULATION_SEED=${seed} PIERHEAD_SIMULATION_SEEDS=1`);
      throw error;
    }
  }
});

async function simulate(seed: number): Promise<void> {
  const clock = new VirtualClock(seed);
  const world = new SimulatedWorld({ seed, faults: hostile, clock });
  const controlPlane = new ControlPlane(clock);
  controlPlane.heartbeatS = 15;
  const stateful = new Set<string>();
  const watch = () => assertOneServerPerState(world, stateful);
  world.watchers.add(watch);
  let process = startVirtualProcess(clock, world, controlPlane.send);
  const minutes = 10 + Math.floor(clock.random() * 20);
  for (let minute = 0; minute < minutes; minute++) {
    for (let count = 0; count < 4; count++) somethingHappens(clock, controlPlane, world, process, stateful);
    if (clock.chance(0.1)) controlPlane.goAway();
    else controlPlane.isAway = false;
    if (clock.chance(0.1)) {
      process.kill();
      await clock.pass(clock.random() * 20_000);
      process = startVirtualProcess(clock, world, controlPlane.send);
    }
    for (let part = 0; part < 6; part++) {
      await clock.pass(clock.random() * 20_000);
      watch();
    }
  }
  controlPlane.isAway = false;
  await clock.pass(3_600_000);
  assertSettled(world, controlPlane, process);
  process.kill();
}

function somethingHappens(
  clock: VirtualClock,
  controlPlane: ControlPlane,
  world: SimulatedWorld,
  { traffic }: VirtualProcess,
  stateful: Set<string>,
): void {
  const assignments = [...controlPlane.assignments.values()];
  const assignment = clock.oneOf(assignments);
  const happening = clock.random();
  if (assignment === undefined || (happening < 0.2 && assignments.length < deploymentsMax)) {
    const deployment_id = `${String(Math.floor(clock.random() * 1e8)).padStart(8, "0")}-0000-4000-8000-000000000000`;
    const isStateful = clock.chance(0.5);
    if (isStateful) stateful.add(deployment_id);
    const idle_after_ms = clock.chance(0.3) ? 120_000 : null;
    controlPlane.assign({ deployment_id, idle_after_ms, target: nextRun(clock, isStateful, idle_after_ms !== null) });
    return;
  }
  const { deployment_id, slug, op, serving, target, idle_after_ms } = assignment;
  if (op === "delete") return;
  if (happening < 0.5) {
    controlPlane.assign({ deployment_id, target: nextRun(clock, stateful.has(deployment_id), idle_after_ms !== null) });
  } else if (happening < 0.55) controlPlane.assign({ deployment_id, target: serving });
  else if (happening < 0.6) controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
  else if (happening < 0.7) world.crash(clock.oneOf(world.snapshot())?.replicaId ?? "");
  else if (happening < 0.75 && target !== null && target.revision_id === serving?.revision_id) {
    const scaled = {
      ...target,
      min_replicas: Math.max(target.min_replicas === 0 ? 0 : 1, Math.floor(clock.random() * 4)),
    };
    controlPlane.assign({ deployment_id, target: scaled, serving: scaled });
  } else traffic.request(slug, clock.random() * 40_000);
}

function nextRun(clock: VirtualClock, isStateful: boolean, canSleep: boolean): RevisionRun {
  const min_replicas = canSleep ? 0 : (clock.oneOf([1, 1, 2, 3]) ?? 1);
  const revision_id = `${String(Math.floor(clock.random() * 1e8)).padStart(8, "0")}-1111-4111-8111-111111111111`;
  return newRun({ revision_id, min_replicas, rollout: isStateful ? "handover" : "rolling" });
}

function assertOneServerPerState(world: SimulatedWorld, stateful: ReadonlySet<string>): void {
  const servers = new Map<string, string>();
  for (const { deploymentId, replicaId, phase } of world.snapshot()) {
    if (phase === "exited" || !stateful.has(deploymentId)) continue;
    assert.equal(servers.get(deploymentId), undefined, `two servers on the state of ${deploymentId}: ${replicaId}`);
    servers.set(deploymentId, replicaId);
  }
}

function assertSettled(world: SimulatedWorld, controlPlane: ControlPlane, { traffic, listener }: VirtualProcess): void {
  const known = new Set(controlPlane.assignments.keys());
  for (const { deploymentId } of world.snapshot()) assert.ok(known.has(deploymentId), `orphan of ${deploymentId}`);
  for (const { deployment_id, slug, op, target, serving, idle_after_ms } of controlPlane.assignments.values()) {
    assert.equal(op, "apply", `${deployment_id} is still being deleted`);
    assert.equal(target?.revision_id, serving?.revision_id, `${deployment_id} is still being rolled out`);
    const replicas = world.snapshot().filter(({ deploymentId }) => deploymentId === deployment_id);
    const sleeps = target?.min_replicas === 0 && idle_after_ms !== null;
    const awake = target?.artifact.rollout === "handover" ? 1 : Math.max(1, target?.min_replicas ?? 0);
    const wanted = target === null || sleeps ? 0 : awake;
    const phases = replicas.map(({ phase, revisionId }) => `${phase} ${revisionId}`);
    assert.deepEqual(phases, Array(wanted).fill(`ready ${target?.revision_id}`), deployment_id);
    const state = target === null ? "closed" : sleeps ? "asleep" : "open";
    const route = traffic.routes.get(slug);
    assert.deepEqual([route?.state, route?.targets.length], [state, wanted], deployment_id);
  }
  assert.deepEqual([listener.health().reportsPending, listener.health().deployments], [0, known.size]);
}
