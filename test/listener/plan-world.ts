import assert from "node:assert/strict";
import type { Assignment, DeploymentReport, RevisionRun } from "../../src/contract/listeners/assignment.ts";
import type { Route } from "../../src/gateway/route.ts";
import type { Action } from "../../src/listener/replicas/pass.ts";
import { type Plan, planReplicas } from "../../src/listener/replicas/plan.ts";
import {
  emptyMemory,
  type Facts,
  type Memory,
  type Preparation,
  type QueueReading,
  type RunCount,
  wake,
} from "../../src/listener/replicas/plan-state.ts";

export const drainTimeoutMs = 20_000;
export const startTimeoutMs = 60_000;

export interface WorldReplica {
  replicaId: string;
  run: RevisionRun;
  phase: "starting" | "ready" | "stopping" | "exited";
  reason: string;
  startedAtMs: number;
  isBeingRemoved: boolean;
  inFlight: number;
  busySinceMs: number;
  runs: RunCount | null;
  routedAtMs: number;
}

export function revisionRun(
  name: string,
  parts: Partial<RevisionRun> & { rollout?: "rolling" | "handover"; engine?: "postgres" | "own" } = {},
): RevisionRun {
  const { rollout = "rolling", engine = "own", ...others } = parts;
  return {
    revision_id: name,
    artifact: { kind: "image", digest: "sha256:0", uri: "example/agent:1", health_path: "/ok", rollout, engine },
    env: {},
    secret_set_id: null,
    min_replicas: 1,
    max_replicas: 100,
    cpu_limit_cores: 1,
    memory_limit_mib: 512,
    start_timeout_ms: startTimeoutMs,
    drain_timeout_ms: drainTimeoutMs,
    ...others,
  };
}

/** One deployment with its replicas and its control plane, driven one event at a time. Every pass is checked. */
export class PlanWorld {
  nowMs = 1_700_000_000_000;
  memory: Memory = emptyMemory;
  replicas: WorldReplica[] = [];
  route: Route | null = null;
  preparation: Preparation | null = null;
  state: Facts["state"] = "present";
  report: Omit<DeploymentReport, "seq"> | null = null;
  plan: Plan | null = null;
  lastRequestAtMs: number | null = null;
  /** What every server answers about its runs. */
  runs: RunCount["count"] = null;
  /** What every server with a queue answers about it: whether it holds work, and when more is due. */
  planned: { isBusy: boolean; dueAtMs: number | null } = { isBusy: false, dueAtMs: null };
  /** The last answer. */
  queue: QueueReading | null = null;
  readonly usedIds = new Set<string>();
  assignment: Assignment;

  constructor(parts: Partial<Assignment> = {}) {
    this.assignment = {
      deployment_id: "deployment",
      tenant_id: "tenant",
      slug: "demo",
      rv: 1,
      generation: 1,
      op: "apply",
      target: null,
      serving: null,
      idle_after_ms: null,
      ...parts,
    };
  }

  assign(parts: Partial<Assignment>): void {
    const generation = this.assignment.generation + 1;
    this.assignment = { ...this.assignment, ...parts, generation };
    if (this.preparation?.revisionId !== this.assignment.target?.revision_id) this.preparation = null;
  }

  /** Acts on the last report like the control plane. */
  settle(): boolean {
    const { target, serving, op, generation } = this.assignment;
    if (op === "delete" || target === null || target.revision_id === serving?.revision_id) return false;
    if (this.report?.generation !== generation) return false;
    if (this.report.target_phase === "ready") this.assign({ serving: target });
    else if (this.report.target_phase === "failed") this.assign({ target: serving });
    else return false;
    return true;
  }

  /** Restarts the listener's process and with it the gateway. Replicas that were stopping continue to stop. */
  restart(): void {
    this.nowMs += 500;
    this.memory = emptyMemory;
    this.route = null;
    this.preparation = null;
    this.queue = null;
    this.lastRequestAtMs = null;
    for (const replica of this.replicas) {
      if (replica.isBeingRemoved && replica.phase !== "exited") replica.phase = "stopping";
      replica.isBeingRemoved = false;
      replica.inFlight = 0;
    }
  }

  requestArrives(turn: number): void {
    this.lastRequestAtMs = this.nowMs;
    if (this.route?.state === "asleep") this.memory = wake(this.memory, this.nowMs);
    if (this.route?.state !== "open") return;
    const target = this.route.targets[turn % this.route.targets.length];
    const replica = this.replicas.find(({ replicaId }) => replicaId === target?.replicaId);
    if (replica === undefined) return;
    if (replica.inFlight === 0) replica.busySinceMs = this.nowMs;
    replica.inFlight += 1;
  }

  exit(replica: WorldReplica, reason = "Exited"): void {
    if (replica.phase === "exited") return;
    Object.assign(replica, { phase: "exited", reason, inFlight: 0 });
  }

  pass(): Plan {
    const plan = planReplicas(this.#facts(), this.memory, this.nowMs);
    this.#check(plan);
    this.memory = plan.memory;
    this.plan = plan;
    this.route = plan.route;
    this.report = plan.report;
    for (const { replicaId } of plan.route?.targets ?? []) {
      for (const replica of this.replicas) if (replica.replicaId === replicaId) replica.routedAtMs = this.nowMs;
    }
    for (const action of plan.actions) this.#act(action);
    return plan;
  }

  /** Runs all pending events and lets the control plane follow, until nothing changes any more. */
  settleDown(): void {
    for (let round = 0; round < 400; round++) {
      const before = this.#signature();
      if (this.runs !== null) this.runs = 0;
      this.planned = { isBusy: false, dueAtMs: null };
      for (const replica of this.replicas) {
        replica.inFlight = 0;
        if (replica.phase === "starting") replica.phase = "ready";
      }
      this.replicas = this.replicas.filter((replica) => !replica.isBeingRemoved);
      if (this.preparation?.phase === "running") this.preparation.phase = "done";
      // There are no requests, so the scaler goes down to the minimum.
      if (this.memory.scale !== null) this.memory = { ...this.memory, scale: { replicas: 0, lower: null } };
      this.pass();
      const hasSettled = this.settle();
      if (!hasSettled && before === this.#signature()) {
        const wakeAtMs = this.plan?.wakeAtMs ?? null;
        if (wakeAtMs === null || round > 300) return;
        this.nowMs = Math.max(this.nowMs, wakeAtMs);
      }
    }
  }

  #signature(): string {
    const replicas = this.replicas.map(({ replicaId, phase, isBeingRemoved }) => [replicaId, phase, isBeingRemoved]);
    return JSON.stringify([replicas, this.route, this.report, this.preparation]);
  }

  #facts(): Facts {
    const limits = { memory: "enforced", cpu: "enforced" };
    const replicas = this.replicas.map(({ run, reason, routedAtMs: _, busySinceMs, ...replica }) => ({
      ...replica,
      oldestRequestMs: replica.inFlight === 0 ? 0 : this.nowMs - busySinceMs,
      revisionId: run.revision_id,
      limits,
      ...(replica.phase === "ready" ? { address: { host: "127.0.0.1", port: 1 } } : {}),
      ...(replica.phase === "exited"
        ? { exit: { reason, message: "It ended.", exitCode: 1, signal: null, lastLines: ["last"] } }
        : {}),
    }));
    return {
      deploymentId: "deployment",
      assignment: this.assignment,
      replicas,
      lastRequestAtMs: this.lastRequestAtMs,
      queue: this.queue,
      preparation: this.preparation,
      state: this.state,
    };
  }

  #act(action: Action): void {
    if (action.kind === "start") {
      this.usedIds.add(action.replicaId);
      this.replicas.push({
        replicaId: action.replicaId,
        run: action.run,
        phase: "starting",
        reason: "",
        startedAtMs: this.nowMs,
        isBeingRemoved: false,
        inFlight: 0,
        busySinceMs: 0,
        runs: null,
        routedAtMs: 0,
      });
    }
    if (action.kind === "readRuns") {
      const replica = this.replicas.find(({ replicaId }) => replicaId === action.replicaId);
      if (replica !== undefined) replica.runs = { count: this.runs, askedAtMs: this.nowMs };
    }
    if (action.kind === "readQueue") {
      const { isBusy, dueAtMs } = this.planned;
      const isQuiet = !isBusy && (dueAtMs === null || dueAtMs > this.nowMs);
      this.queue = { isQuiet, dueAtMs, askedAtMs: this.nowMs };
    }
    if (action.kind === "remove") {
      const replica = this.replicas.find(({ replicaId }) => replicaId === action.replicaId);
      if (replica !== undefined) replica.isBeingRemoved = true;
    }
    if (action.kind === "prepare" && this.preparation?.revisionId !== action.run.revision_id) {
      this.preparation = { revisionId: action.run.revision_id, phase: "running", reason: "StartError", message: "" };
    }
    if (action.kind === "removeState") {
      assert.equal(this.replicas.length, 0, "state is removed while replicas use it");
      this.state = "removed";
    }
  }

  /** Checks what must hold for every pass in every world. */
  #check({ actions, route, report, memory }: Plan): void {
    const removed = actions.filter((action) => action.kind === "remove").map(({ replicaId }) => replicaId);
    const started = actions.filter((action) => action.kind === "start");
    const byId = new Map(this.replicas.map((replica) => [replica.replicaId, replica]));
    const targets = route?.targets.map(({ replicaId }) => byId.get(replicaId)) ?? [];

    for (const target of targets) {
      assert.equal(target?.phase, "ready", "the route points to a replica that is not ready");
      assert.equal(target.isBeingRemoved, false, "the route points to a replica that is leaving");
      assert.equal(target.run.revision_id, route?.revisionId, "the route names another revision");
      assert.ok(!removed.includes(target.replicaId), "a replica is removed while the route points to it");
    }
    if (route?.state === "open") assert.ok(targets.length > 0, "an open route has no target");

    for (const replicaId of removed) {
      const replica = byId.get(replicaId);
      assert.equal(replica?.isBeingRemoved, false, "a replica is removed twice at once");
      const isServing = replica.phase === "ready" && replica.inFlight > 0 && this.assignment.op === "apply";
      // A handover lets requests through until its limit and then holds new ones for a moment.
      const sinceMs = Math.min(replica.routedAtMs, this.memory.quietAwaitedSinceMs ?? Number.POSITIVE_INFINITY);
      const waitedMs = this.nowMs - sinceMs;
      if (isServing) assert.ok(waitedMs >= drainTimeoutMs, `running requests were cut after ${waitedMs} ms`);
    }
    assert.equal(new Set(removed).size, removed.length, "a replica is removed twice in one pass");
    for (const { replicaId, run } of started) {
      assert.ok(!this.usedIds.has(replicaId), "a replica id is used twice");
      const onState = this.replicas.filter((replica) => isHandover(replica.run)).length;
      if (isHandover(run)) assert.equal(onState + started.length, 1, "two servers on one state");
    }
    const failedId = report?.target_phase === "failed" ? report.target_revision_id : null;
    assert.ok(!started.some(({ run }) => run.revision_id === failedId), "a target that was given up is started again");
    if (route?.state === "asleep" && this.route?.state === "open") this.#checkSleep();
    if (route?.state === "asleep") assert.ok((memory.dueAtMs ?? Infinity) > this.nowMs, "asleep while work is due");
    const isHopeless = this.assignment.serving === null && report?.target_phase !== "ready";
    if (!isHopeless) this.#checkService(route, removed);
  }

  #checkSleep(): void {
    const idleMs = this.nowMs - (this.lastRequestAtMs ?? 0);
    assert.ok(idleMs >= (this.assignment.idle_after_ms ?? Infinity), `put to sleep ${idleMs} ms after a request`);
    const busy = this.replicas.filter(({ inFlight, phase }) => inFlight > 0 && phase === "ready");
    assert.ok(
      !busy.some(({ replicaId }) => this.route?.targets.some((to) => to.replicaId === replicaId)),
      "put to sleep while busy",
    );
    const { target, serving } = this.assignment;
    const sleeping = [target, serving].find((run) => run?.revision_id === this.route?.revisionId);
    if (sleeping?.artifact.engine !== "postgres") return;
    const { isQuiet = false, dueAtMs = null, askedAtMs = 0 } = this.queue ?? {};
    assert.ok(isQuiet && askedAtMs > (this.lastRequestAtMs ?? 0), "put to sleep without asking after the last request");
    assert.ok((dueAtMs ?? Infinity) - this.nowMs >= 60_000, "put to sleep shortly before work is due");
  }

  /** Checks that a rolling deployment that answers keeps answering, except when it sleeps or is deleted. */
  #checkService(route: Route | null, removed: string[]): void {
    const { op, target, serving } = this.assignment;
    const mayStop = op === "delete" || route?.state === "asleep";
    const isRolling = ![target, serving, ...this.replicas.map(({ run }) => run)].some((run) => run && isHandover(run));
    const wasOpen = this.route?.state === "open";
    const answers = ({ phase, isBeingRemoved }: WorldReplica) => phase === "ready" && !isBeingRemoved;
    const routed = this.replicas.filter((replica) =>
      this.route?.targets.some((to) => to.replicaId === replica.replicaId),
    );
    if (mayStop || !isRolling || !wasOpen || !routed.some(answers)) return;
    assert.equal(route?.state, "open", "a rolling deployment stopped answering");
    assert.ok(
      routed.some((replica) => answers(replica) && !removed.includes(replica.replicaId)) || removed.length === 0,
    );
  }
}

const isHandover = ({ artifact }: RevisionRun) => artifact.rollout === "handover";
