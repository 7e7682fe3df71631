import assert from "node:assert/strict";
import type { Send } from "../../src/client/listener-client.ts";
import { SimulatedWorld } from "../../src/compute/simulated.ts";
import { crashLoopStreak } from "../../src/domain/deployment-health.ts";
import { resolveTimeoutMs } from "../../src/domain/limits.ts";
import { holdsSlot, isFinal } from "../../src/domain/revision-status.ts";
import { hostile, startVirtualProcess, VirtualClock, type VirtualProcess } from "../listener/virtual-world.ts";
import { SimulatedControlPlane } from "./control-plane.ts";
import type { DeploymentRecord, RevisionRecord } from "./records.ts";
import { slugOf } from "./revision-settings.ts";

const deploymentsMax = 5;
/** Longer than the sum of all deadlines: what has not settled by then never will. */
const settleMs = 4 * 3_600_000;

/**
 * Runs one history. Users change their minds, and servers, listeners, replicas and the network fail, all as the seed
 * decides. Then nothing more happens, and the installation must settle. Invariants are checked after each change of a row
 * or a replica.
 * @returns how often each event happened, as proof that the history was not empty
 */
export async function runHistory(seed: number): Promise<Record<string, number>> {
  const clock = new VirtualClock(seed);
  const world = new SimulatedWorld({ seed, faults: hostile, clock });
  const controlPlane = new SimulatedControlPlane(clock);
  const counts: Record<string, number> = {};
  const count = (event: string) => {
    counts[event] = (counts[event] ?? 0) + 1;
  };
  controlPlane.count = count;
  const network = { isFaulty: true };
  const send = unreliable(controlPlane.send, { clock, network, count });
  const check = (assertHolds: () => void) => () => {
    try {
      assertHolds();
    } catch (error) {
      // Recorded, not thrown: the pass or the listener that made the change would handle the error.
      controlPlane.failure ??= error;
    }
  };
  controlPlane.store.onChange = check(() => assertRows(controlPlane));
  world.watchers.add(check(() => assertOneReplicaPerState(world, controlPlane)));
  let listener = startVirtualProcess(clock, world, send);

  const minutes = 10 + Math.floor(clock.random() * 20);
  for (let minute = 0; minute < minutes; minute++) {
    for (let times = 0; times < 4; times++) count(makeEvent(clock, { controlPlane, world, listener }));
    if (clock.chance(0.1)) controlPlane.protocol.goAway();
    else controlPlane.protocol.isAway = false;
    if (clock.chance(0.15)) {
      controlPlane.killServer();
      count("a server dies");
    }
    if (clock.chance(0.1)) {
      listener.kill();
      await clock.pass(clock.random() * 20_000);
      listener = startVirtualProcess(clock, world, send);
      count("the listener dies");
    }
    await clock.pass(30_000 + clock.random() * 60_000);
    if (controlPlane.failure !== undefined) throw controlPlane.failure;
  }
  controlPlane.protocol.isAway = false;
  network.isFaulty = false;
  await settle(clock, () => assertSettled({ controlPlane, world, listener }));
  if (controlPlane.failure !== undefined) throw controlPlane.failure;
  listener.kill();
  for (const deployment of controlPlane.deployments.values()) {
    for (const { status } of deployment.revisions) count(`revision ${status}`);
  }
  return counts;
}

/** Waits until the installation has settled. Most histories settle within minutes, and each virtual hour costs real time. */
async function settle(clock: VirtualClock, assertIsSettled: () => void): Promise<void> {
  for (let passedMs = 0; ; passedMs += settleMs / 32) {
    await clock.pass(settleMs / 32);
    try {
      return assertIsSettled();
    } catch (error) {
      if (passedMs >= settleMs) throw error;
    }
  }
}

interface Scene {
  controlPlane: SimulatedControlPlane;
  world: SimulatedWorld;
  listener: VirtualProcess;
}

/** A network that is slow, loses requests and responses, and delivers some requests twice, the second time much later. */
function unreliable(
  send: Send,
  at: { clock: VirtualClock; network: { isFaulty: boolean }; count: (event: string) => void },
): Send {
  const { clock, network, count } = at;
  const pass = (ms: number) => new Promise<void>((resolve) => void clock.setTimeout(resolve, ms));
  return async (request) => {
    if (!network.isFaulty) return send(request);
    await pass(clock.random() * 200);
    if (clock.chance(0.03)) {
      count("a request is lost");
      throw new Error("connection reset");
    }
    if (clock.chance(0.05)) {
      count("a request arrives twice");
      void pass(clock.random() * 60_000).then(() => send(request).catch(() => {}));
    }
    const response = await send(request);
    await pass(clock.random() * 200);
    if (clock.chance(0.03)) {
      count("a response is lost");
      throw new Error("connection reset");
    }
    return response;
  };
}

/** Makes one random event happen and returns its name. */
function makeEvent(clock: VirtualClock, { controlPlane, world, listener }: Scene): string {
  const deployments = [...controlPlane.deployments.values()];
  const deployment = clock.oneOf(deployments);
  const choice = clock.random();
  if (deployment === undefined || (choice < 0.15 && deployments.length < deploymentsMax)) {
    const created = newDeployment(clock);
    created.revisions.push(newRevision(clock, created));
    controlPlane.store.createDeployment(created);
    return "create";
  }
  if (choice < 0.4) {
    controlPlane.store.createRevision(newRevision(clock, deployment));
    return "revise";
  }
  if (choice < 0.5) {
    const before = clock.oneOf(deployment.revisions.filter(({ status }) => status === "DEPLOYED"));
    if (before !== undefined) controlPlane.store.createRevision(newRevision(clock, deployment, before));
    return "roll back";
  }
  if (choice < 0.58) {
    const revision = clock.oneOf(deployment.revisions.filter(({ status }) => !isFinal(status)));
    if (revision !== undefined) controlPlane.interrupt(deployment.id, revision);
    return "interrupt";
  }
  if (choice < 0.64) {
    controlPlane.delete(deployment);
    return "delete";
  }
  if (choice < 0.74) {
    world.crash(clock.oneOf(world.snapshot())?.replicaId ?? "");
    return "crash";
  }
  listener.traffic.request(slugOf(deployment.id), clock.random() * 40_000);
  return "agent request";
}

const numbered = (clock: VirtualClock, end: string) =>
  `${String(Math.floor(clock.random() * 1e8)).padStart(8, "0")}${end}`;

function newDeployment(clock: VirtualClock): DeploymentRecord {
  return {
    id: numbered(clock, "-0000-4000-8000-000000000000"),
    isStateful: clock.chance(0.5),
    idleAfterMs: clock.chance(0.3) ? 120_000 : null,
    revisions: [],
    builds: new Map(),
    status: "AWAITING_DATABASE",
    activeRevisionId: null,
    health: { word: "deploying", reason: null, message: null, failure: null },
    observation: null,
  };
}

/**
 * Returns a revision of an upload or of an image.
 * @param before a revision to run again: the new one names its source and its artifact
 */
function newRevision(clock: VirtualClock, deployment: DeploymentRecord, before?: RevisionRecord): RevisionRecord {
  const minReplicas = deployment.idleAfterMs === null ? (clock.oneOf([1, 1, 2, 3]) ?? 1) : 0;
  const id = numbered(clock, "-1111-4111-8111-111111111111");
  const isImage = before === undefined ? clock.chance(0.2) : before.imageUri !== null;
  const resolves = clock.chance(0.95);
  return {
    id,
    deploymentId: deployment.id,
    minReplicas,
    imageUri: isImage ? `registry.example.org/agent:${id}` : null,
    fate: { resolves, builds: clock.chance(0.85), buildMs: 1_000 * 200 ** clock.random() },
    status: "CREATING",
    since: new Date(clock.now()),
    message: null,
    deadlineAt: new Date(clock.now() + resolveTimeoutMs),
    // Without `resolves`, the artifact is gone, and so is its source.
    artifactId: before === undefined ? null : resolves ? before.artifactId : "gone",
    artifactKey: before?.artifactKey ?? null,
  };
}

/** Checks what must hold at every moment, whichever process has just died or stalled. */
function assertRows({ deployments, protocol }: SimulatedControlPlane): void {
  for (const { id, revisions, activeRevisionId, health } of deployments.values()) {
    if (activeRevisionId !== null) assert.notEqual(health.word, "failed", `${id} serves`);
    else assert.ok(!["live", "degraded", "sleeping"].includes(health.word), `${id} is ${health.word} and never served`);
    const inProgress = revisions.filter(({ status }) => holdsSlot(status));
    assert.ok(inProgress.length <= 1, `${id} has ${inProgress.length} revisions in progress`);
    const active = revisions.find((revision) => revision.id === activeRevisionId);
    assert.equal(active?.status ?? null, activeRevisionId && "DEPLOYED", `the active revision of ${id}`);
    const serving = protocol.assignments.get(id)?.serving ?? null;
    const served = revisions.find((revision) => revision.id === serving?.revision_id);
    assert.ok(
      serving === null || served?.status === "DEPLOYED",
      `${id} should serve a revision that is ${served?.status}`,
    );
  }
}

/** Checks that no two replicas use the state of one deployment. */
function assertOneReplicaPerState(world: SimulatedWorld, { deployments }: SimulatedControlPlane): void {
  const replicas = new Map<string, string>();
  for (const { deploymentId, replicaId, phase } of world.snapshot()) {
    if (phase === "exited" || deployments.get(deploymentId)?.isStateful !== true) continue;
    assert.equal(replicas.get(deploymentId), undefined, `two replicas on the state of ${deploymentId}: ${replicaId}`);
    replicas.set(deploymentId, replicaId);
  }
}

/** Checks that nothing is left to do, and that exactly the desired replicas run. */
function assertSettled({ controlPlane, world, listener }: Scene): void {
  const { deployments, protocol } = controlPlane;
  assert.deepEqual(
    [...protocol.assignments.keys()].filter((id) => !deployments.has(id)),
    [],
  );
  for (const { deploymentId } of world.snapshot())
    assert.ok(deployments.has(deploymentId), `orphan of ${deploymentId}`);
  for (const deployment of deployments.values()) assertDeploymentSettled(deployment, { controlPlane, world, listener });
  assert.equal(listener.listener.health().reportsPending, 0);
}

function assertDeploymentSettled(deployment: DeploymentRecord, { controlPlane, world, listener }: Scene): void {
  const { id, revisions, activeRevisionId, isStateful, idleAfterMs, status, builds } = deployment;
  assert.equal(status, "READY", `${id} is ${status}`);
  for (const revision of revisions)
    assert.ok(isFinal(revision.status), `${revision.id} of ${id} is ${revision.status}`);
  for (const build of builds.values()) assert.notEqual(build.status, "running", `a build of ${id} is still running`);
  const assignment = controlPlane.protocol.assignments.get(id);
  assert.deepEqual(
    [assignment?.target?.revision_id ?? null, assignment?.serving?.revision_id ?? null],
    [activeRevisionId, activeRevisionId],
    `${id} should run its active revision`,
  );
  const active = revisions.find((revision) => revision.id === activeRevisionId);
  const awake = isStateful ? 1 : (active?.minReplicas ?? 0);
  const wanted = active === undefined || idleAfterMs !== null ? 0 : awake;
  const phases = world.snapshot().filter(({ deploymentId }) => deploymentId === id);
  assert.deepEqual(
    phases.map(({ phase, revisionId }) => `${phase} ${revisionId}`),
    Array(wanted).fill(`ready ${activeRevisionId}`),
    `replicas of ${id}`,
  );
  const route = listener.traffic.routes.get(slugOf(id));
  const state = active === undefined ? "closed" : idleAfterMs !== null ? "asleep" : "open";
  if (assignment !== undefined)
    assert.deepEqual([route?.state, route?.targets.length], [state, wanted], `route of ${id}`);
  assert.equal(deployment.health.word, expectedHealth(deployment, wanted), `health of ${id}`);
  if (deployment.health.word === "live") assert.ok(phases.length > 0, `${id} is live without a replica`);
}

/** The health of a settled deployment, from what a user sees of it. */
function expectedHealth({ revisions, activeRevisionId, observation }: DeploymentRecord, replicas: number): string {
  if (activeRevisionId === null) return "failed";
  if (replicas === 0) return "sleeping";
  if ((observation?.report.crash_streak ?? 0) >= crashLoopStreak) return "crash_looping";
  return /_FAILED$/.test(revisions.at(-1)?.status ?? "") ? "degraded" : "live";
}
