import assert from "node:assert/strict";
import type { Send } from "../../src/client/listener-client.ts";
import { SimulatedWorld } from "../../src/compute/simulated.ts";
import { holdsSlot, isFinal } from "../../src/domain/revision-status.ts";
import { newRun } from "../listener/harness.ts";
import { hostile, startVirtualProcess, VirtualClock, type VirtualProcess } from "../listener/virtual-world.ts";
import { SimulatedControlPlane } from "./control-plane.ts";
import { DeploymentRecord, type RevisionRecord } from "./records.ts";

const deploymentsMax = 5;
/** Longer than every deadline one after the other: what has not settled by then never will. */
const settleMs = 4 * 3_600_000;

/**
 * One history: users change their minds, servers, listeners, replicas and the network fail, all as the seed says; then
 * everything is left alone and must settle. Rules are checked after everything that changes a row or a replica.
 * @returns how often something happened, to show that something did.
 */
export async function runHistory(seed: number): Promise<Record<string, number>> {
  const clock = new VirtualClock(seed);
  const world = new SimulatedWorld({ seed, faults: hostile, clock });
  const controlPlane = new SimulatedControlPlane(clock);
  const counts: Record<string, number> = {};
  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1;
  };
  const network = { isFaulty: true };
  const send = unreliable(controlPlane.send, { clock, network, count });
  controlPlane.watch = () => assertRows(controlPlane);
  world.watchers.add(() => assertOneServerPerState(world, controlPlane));
  let listener = startVirtualProcess(clock, world, send);

  const minutes = 10 + Math.floor(clock.random() * 20);
  for (let minute = 0; minute < minutes; minute++) {
    for (let times = 0; times < 4; times++) count(somethingHappens(clock, { controlPlane, world, listener }));
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
  }
  controlPlane.protocol.isAway = false;
  network.isFaulty = false;
  await settle(clock, () => assertSettled({ controlPlane, world, listener }));
  listener.kill();
  for (const deployment of controlPlane.deployments.values()) {
    for (const { status } of deployment.revisions) count(`revision ${status}`);
  }
  return counts;
}

/** Waits for the level: most histories settle within minutes, and each virtual hour costs. */
async function settle(clock: VirtualClock, assertIs: () => void): Promise<void> {
  for (let passedMs = 0; ; passedMs += settleMs / 32) {
    await clock.pass(settleMs / 32);
    try {
      return assertIs();
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

/** A network that loses questions and answers, is slow, and delivers a question twice, the second time much later. */
function unreliable(
  send: Send,
  at: { clock: VirtualClock; network: { isFaulty: boolean }; count: (what: string) => void },
): Send {
  const { clock, network, count } = at;
  const pass = (ms: number) => new Promise<void>((resolve) => void clock.setTimeout(resolve, ms));
  return async (request) => {
    if (!network.isFaulty) return send(request);
    await pass(clock.random() * 200);
    if (clock.chance(0.03)) {
      count("a question is lost");
      throw new Error("connection reset");
    }
    if (clock.chance(0.05)) {
      count("a question comes twice");
      void pass(clock.random() * 60_000).then(() => send(request).catch(() => {}));
    }
    const answer = await send(request);
    await pass(clock.random() * 200);
    if (clock.chance(0.03)) {
      count("an answer is lost");
      throw new Error("connection reset");
    }
    return answer;
  };
}

function somethingHappens(clock: VirtualClock, { controlPlane, world, listener }: Scene): string {
  const deployments = [...controlPlane.deployments.values()];
  const deployment = clock.oneOf(deployments);
  const happening = clock.random();
  if (deployment === undefined || (happening < 0.15 && deployments.length < deploymentsMax)) {
    const created = newDeployment(clock);
    created.revisions.push(newRevision(clock, created));
    controlPlane.create(created);
    return "create";
  }
  if (happening < 0.4) {
    controlPlane.revise(deployment, newRevision(clock, deployment));
    return "revise";
  }
  if (happening < 0.5) {
    const before = clock.oneOf(deployment.revisions.filter(({ status }) => status === "DEPLOYED"));
    if (before !== undefined) controlPlane.revise(deployment, newRevision(clock, deployment, before));
    return "roll back";
  }
  if (happening < 0.58) {
    const revision = clock.oneOf(deployment.revisions.filter(({ status }) => !isFinal(status)));
    if (revision !== undefined) controlPlane.interrupt(deployment, revision);
    return "interrupt";
  }
  if (happening < 0.64) {
    controlPlane.delete(deployment);
    return "delete";
  }
  if (happening < 0.74) {
    world.crash(clock.oneOf(world.snapshot())?.replicaId ?? "");
    return "crash";
  }
  listener.traffic.request(slugOf(deployment.id), clock.random() * 40_000);
  return "request";
}

const slugOf = (deploymentId: string) => `d-${deploymentId.slice(0, 8)}`;
const numbered = (clock: VirtualClock, end: string) =>
  `${String(Math.floor(clock.random() * 1e8)).padStart(8, "0")}${end}`;

function newDeployment(clock: VirtualClock): DeploymentRecord {
  return new DeploymentRecord(numbered(clock, "-0000-4000-8000-000000000000"), {
    isStateful: clock.chance(0.5),
    idleAfterMs: clock.chance(0.3) ? 120_000 : null,
  });
}

/** @param before what is to run again: its artifact is there. */
function newRevision(clock: VirtualClock, of: DeploymentRecord, before?: RevisionRecord): RevisionRecord {
  const min_replicas = of.idleAfterMs === null ? (clock.oneOf([1, 1, 2, 3]) ?? 1) : 0;
  const id = numbered(clock, "-1111-4111-8111-111111111111");
  const hasArtifact = before !== undefined || clock.chance(0.2);
  return {
    id,
    run: newRun({ revision_id: id, min_replicas, rollout: of.isStateful ? "handover" : "rolling" }),
    fate: { resolves: clock.chance(0.95), builds: clock.chance(0.85), buildMs: 1_000 * 200 ** clock.random() },
    ...{ status: "CREATING", deadlineAt: new Date(clock.now() + 90_000), hasArtifact },
  };
}

/** What holds at every moment, whoever died or stalled just now. */
function assertRows({ deployments, protocol }: SimulatedControlPlane): void {
  for (const { id, revisions, activeRevisionId } of deployments.values()) {
    const inProgress = revisions.filter(({ status }) => holdsSlot(status));
    assert.ok(inProgress.length <= 1, `${id} has ${inProgress.length} revisions in progress`);
    const active = revisions.find((revision) => revision.id === activeRevisionId);
    assert.equal(active?.status ?? null, activeRevisionId && "DEPLOYED", `the active revision of ${id}`);
    const serving = protocol.assignments.get(id)?.serving ?? null;
    const served = revisions.find((revision) => revision.id === serving?.revision_id);
    assert.ok(
      serving === null || served?.status === "DEPLOYED",
      `${id} is to serve a revision that is ${served?.status}`,
    );
  }
}

function assertOneServerPerState(world: SimulatedWorld, { deployments }: SimulatedControlPlane): void {
  const servers = new Map<string, string>();
  for (const { deploymentId, replicaId, phase } of world.snapshot()) {
    if (phase === "exited" || deployments.get(deploymentId)?.isStateful !== true) continue;
    assert.equal(servers.get(deploymentId), undefined, `two servers on the state of ${deploymentId}: ${replicaId}`);
    servers.set(deploymentId, replicaId);
  }
}

/** Nothing is left to do, what should run runs, and nothing else does. */
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
  for (const build of builds.values()) assert.notEqual(build.status, "running", `a build of ${id} goes on`);
  const assignment = controlPlane.protocol.assignments.get(id);
  assert.deepEqual(
    [assignment?.target?.revision_id ?? null, assignment?.serving?.revision_id ?? null],
    [activeRevisionId, activeRevisionId],
    `${id} should run its active revision`,
  );
  const active = revisions.find((revision) => revision.id === activeRevisionId);
  const awake = isStateful ? 1 : (active?.run.min_replicas ?? 0);
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
}
