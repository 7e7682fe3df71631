import type { Send } from "../../src/client/listener-client.ts";
import type { DeploymentReport, RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { isBeingDeleted } from "../../src/domain/deployment-status.ts";
import {
  awaitingBuildTimeoutMs,
  awaitingDeployTimeoutMs,
  buildLeaseMs,
  buildTimeoutMs,
  deadlineMarginMs,
  deployTimeoutMs,
} from "../../src/domain/limits.ts";
import { canMoveRevision } from "../../src/domain/revision-status.ts";
import { planDeployment, type Step } from "../../src/reconciler/plan/plan.ts";
import type { DeploymentState } from "../../src/reconciler/plan/state.ts";
import { ControlPlane } from "../listener/control-plane.ts";
import type { VirtualClock } from "../listener/virtual-world.ts";
import { VirtualQueue } from "./queue.ts";
import type { DeploymentRecord, RevisionRecord } from "./records.ts";

/** A server of the control plane: dies without a word, and another one has its work when the leases run out. */
interface Server {
  name: string;
  isDead: boolean;
  /** Something may be due. */
  wake: () => void;
}

/** Steps of one pass, as in src/reconciler/loop/reconcile.ts. */
const stepsMax = 8;
const lookDelayMs = 500;

/** Between reading and acting, and between acting and the next look: long enough for everybody else to move. */
const pauseMaxMs = 400;
/** Now and then longer than the lease: two passes over one deployment at once. */
const stallMs = 45_000;

type Performed = "done" | { retryInMs: number };

/**
 * A control plane on virtual time: the plan of the reconciler and the tables of statuses are the real ones; the store is
 * rows in memory, with its rules of compare-and-swap, leases and generations. Two servers work on it and die.
 */
export class SimulatedControlPlane {
  readonly deployments = new Map<string, DeploymentRecord>();
  readonly protocol: ControlPlane;
  /** Called after everything that changes a row. */
  watch: () => void = () => {};
  readonly #clock: VirtualClock;
  readonly #queue: VirtualQueue;
  #servers: Server[] = [];
  #serverCount = 0;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
    this.#queue = new VirtualQueue(clock.now, () => {
      for (const server of this.#servers) server.wake();
    });
    this.protocol = new ControlPlane(clock);
    this.protocol.heartbeatS = 15;
    this.protocol.isFollowing = false;
    this.protocol.onReports = (reports, epoch) => this.#take(reports, epoch);
    for (let count = 0; count < 2; count++) this.#startServer();
  }

  get send(): Send {
    return this.protocol.send;
  }

  create(deployment: DeploymentRecord): void {
    this.deployments.set(deployment.id, deployment);
    this.#changed(deployment.id);
  }

  revise(deployment: DeploymentRecord, revision: RevisionRecord): void {
    if (isBeingDeleted(deployment.status)) return;
    deployment.revisions.push(revision);
    this.#changed(deployment.id);
  }

  interrupt(deployment: DeploymentRecord, { id, status }: RevisionRecord): void {
    if (canMoveRevision(status, "INTERRUPTED")) deployment.moveRevision(id, status, "INTERRUPTED", null);
    this.#changed(deployment.id);
  }

  delete(deployment: DeploymentRecord): void {
    if (isBeingDeleted(deployment.status)) return;
    deployment.moveDeployment(deployment.status, "AWAITING_DELETE");
    this.#changed(deployment.id);
  }

  /** One server dies in the middle of whatever it does; another starts. */
  killServer(): void {
    const victim = this.#clock.oneOf(this.#servers);
    if (victim === undefined) return;
    victim.isDead = true;
    this.#servers = this.#servers.filter((server) => server !== victim);
    this.#startServer();
  }

  #changed(id: string): void {
    this.#queue.enqueue(id);
    this.watch();
  }

  #take(reports: DeploymentReport[], epoch: number): void {
    for (const report of reports) {
      const deployment = this.deployments.get(report.deployment_id);
      if (deployment?.observe(report, epoch)) this.#changed(deployment.id);
    }
  }

  #startServer(): void {
    this.#serverCount += 1;
    const server: Server = { name: `server-${this.#serverCount}`, isDead: false, wake: () => {} };
    this.#servers.push(server);
    let cancel = () => {};
    const lookAt = (atMs: number) => {
      cancel();
      if (atMs < Number.POSITIVE_INFINITY) cancel = this.#clock.setTimeout(look, atMs - this.#clock.now());
    };
    server.wake = () => lookAt(this.#queue.nextAtMs() + lookDelayMs * this.#clock.random());
    const look = () => {
      if (server.isDead) return;
      for (let claim = this.#queue.claim(server.name); claim !== null; claim = this.#queue.claim(server.name)) {
        void this.#pass(server, claim);
      }
      server.wake();
    };
    server.wake();
  }

  /** Never resolves once the server is dead. */
  #pause(server: Server): Promise<void> {
    const delayMs = this.#clock.chance(0.002) ? stallMs : this.#clock.random() * pauseMaxMs;
    return new Promise((resolve) => {
      this.#clock.setTimeout(() => void (server.isDead || resolve()), delayMs);
    });
  }

  async #pass(server: Server, { id, holder }: { id: string; holder: string }): Promise<void> {
    let retryAtMs: number | null = this.#clock.now();
    for (let count = 0; count < stepsMax; count++) {
      const deployment = this.deployments.get(id);
      if (deployment === undefined) return this.#queue.forget(id);
      const now = new Date(this.#clock.now());
      const state = deployment.read(this.#assignmentOf(id), now);
      await this.#pause(server);
      const step = planDeployment(state, now);
      if (step.kind === "none" || step.kind === "wait") {
        retryAtMs = step.kind === "wait" ? (step.until?.getTime() ?? null) : null;
        break;
      }
      if (!this.deployments.has(id)) continue;
      const performed = this.#perform(server, { deployment, state, step });
      this.watch();
      await this.#pause(server);
      if (performed === "done") continue;
      retryAtMs = this.#clock.now() + performed.retryInMs;
      break;
    }
    this.#queue.settle(id, holder, retryAtMs);
  }

  #assignmentOf(id: string): DeploymentState["assignment"] {
    const found = this.protocol.assignments.get(id);
    if (found === undefined) return null;
    const [targetRevisionId, servingRevisionId] = [found.target, found.serving].map((run) => run?.revision_id ?? null);
    return {
      ...{ generation: found.generation, op: found.op },
      ...{ targetRevisionId: targetRevisionId ?? null, servingRevisionId: servingRevisionId ?? null },
      isCurrent: true,
    };
  }

  #perform(server: Server, of: { deployment: DeploymentRecord; state: DeploymentState; step: Step }): Performed {
    const { deployment, step } = of;
    switch (step.kind) {
      case "provision":
        deployment.moveDeployment("AWAITING_DATABASE", "READY");
        return "done";
      case "resolve":
        return this.#resolve(deployment, deployment.revision(step.revisionId));
      case "move":
        deployment.moveRevision(step.revisionId, step.from, step.to, this.#deadlineOf(step.to));
        return "done";
      case "skip":
        for (const id of step.revisionIds) deployment.moveRevision(id, "QUEUED", "SKIPPED", null);
        return "done";
      case "build":
        return this.#build(server, deployment, deployment.revision(step.revisionId));
      case "cancelBuild":
        return this.#cancelBuild(server, deployment, step.revisionId);
      case "acceptBuild":
        if (
          deployment.moveRevision(step.revisionId, "BUILDING", "AWAITING_DEPLOY", this.#in(awaitingDeployTimeoutMs))
        ) {
          deployment.revision(step.revisionId).hasArtifact = true;
        }
        return "done";
      case "finalize":
        deployment.moveDeployment("AWAITING_DELETE", "AWAITING_FINAL_DELETE");
        return "done";
      case "deleteRow":
        if (deployment.status === "AWAITING_FINAL_DELETE") this.#deleteRow(deployment.id);
        return "done";
      default:
        return this.#assign(of);
    }
  }

  #deleteRow(id: string): void {
    this.deployments.delete(id);
    this.protocol.forget(id);
  }

  #resolve(deployment: DeploymentRecord, revision: RevisionRecord): Performed {
    const to = revision.fate.resolves ? "QUEUED" : "CREATE_FAILED";
    deployment.moveRevision(revision.id, "CREATING", to, null);
    return "done";
  }

  #build(server: Server, deployment: DeploymentRecord, revision: RevisionRecord): Performed {
    const deadlineAt = this.#in(buildTimeoutMs + deadlineMarginMs);
    deployment.moveRevision(revision.id, "AWAITING_BUILD", "BUILDING", deadlineAt);
    if (revision.status !== "BUILDING") return "done";
    const before = deployment.builds.get(revision.id);
    const isFree =
      before === undefined || before.status === "cancelled" || before.leaseUntil.getTime() < this.#clock.now();
    if (!isFree) return { retryInMs: 500 };
    const attempts = (before?.attempts ?? 0) + 1;
    const leaseUntil = this.#in(buildLeaseMs);
    const of = { revisionId: revision.id, owner: server.name, attempts, leaseUntil };
    deployment.builds.set(revision.id, { ...of, status: "running", abandoned: false, failure: null });
    this.#work(server, deployment, { revision, endMs: this.#clock.now() + revision.fate.buildMs });
    return "done";
  }

  /** The build goes on for as long as its server lives and holds it. */
  #work(server: Server, deployment: DeploymentRecord, work: { revision: RevisionRecord; endMs: number }): void {
    const { revision, endMs } = work;
    const delayMs = Math.min(buildLeaseMs / 3, endMs - this.#clock.now());
    this.#clock.setTimeout(() => {
      const build = deployment.builds.get(revision.id);
      if (server.isDead || build?.owner !== server.name || build.status !== "running") return;
      if (this.#clock.now() < endMs) {
        build.leaseUntil = this.#in(buildLeaseMs);
        return this.#work(server, deployment, work);
      }
      build.status = revision.fate.builds ? "succeeded" : "failed";
      build.failure = revision.fate.builds ? null : "npm ended with code 1";
      this.#changed(deployment.id);
    }, delayMs);
  }

  #cancelBuild(server: Server, deployment: DeploymentRecord, revisionId: string): Performed {
    const build = deployment.builds.get(revisionId);
    const isOurs = build?.owner === server.name;
    if (build !== undefined && (isOurs || build.leaseUntil.getTime() < this.#clock.now())) build.status = "cancelled";
    return { retryInMs: 250 };
  }

  /** Status of the revision and assignment of the listener change together, or not at all. */
  #assign({
    deployment,
    state,
    step,
  }: {
    deployment: DeploymentRecord;
    state: DeploymentState;
    step: Step;
  }): Performed {
    const { activeRevisionId: active } = state;
    switch (step.kind) {
      case "rollOut": {
        const { status } = state.unsettled.find(({ id }) => id === step.revisionId) ?? {};
        const isFirst = status === "AWAITING_DEPLOY";
        const deadlineAt = this.#in(deployTimeoutMs + deadlineMarginMs);
        if (isFirst && !deployment.moveRevision(step.revisionId, status, "DEPLOYING", deadlineAt)) return "done";
        return this.#write(deployment, step.revisionId, active);
      }
      case "finishRollout":
        if (!deployment.moveRevision(step.revisionId, "DEPLOYING", "DEPLOYED", null)) return "done";
        deployment.activeRevisionId = step.revisionId;
        return this.#write(deployment, step.revisionId, step.revisionId);
      case "failRollout":
        if (!deployment.moveRevision(step.revisionId, "DEPLOYING", "DEPLOY_FAILED", null)) return "done";
        return this.#write(deployment, active, active);
      case "settleAssignment":
        return this.#write(deployment, step.revisionId, step.revisionId);
      case "assignDelete":
        this.protocol.assign({ deployment_id: deployment.id, op: "delete", target: null, serving: null });
        return "done";
      default:
        throw new Error(`no such step: ${step.kind}`);
    }
  }

  #write(deployment: DeploymentRecord, targetId: string | null, servingId: string | null): Performed {
    const runOf = (id: string | null): RevisionRun | null => (id === null ? null : deployment.revision(id).run);
    const [target, serving] = [runOf(targetId), runOf(servingId)];
    const idle_after_ms = deployment.idleAfterMs;
    this.protocol.assign({ deployment_id: deployment.id, op: "apply", target, serving, idle_after_ms });
    return "done";
  }

  #in(delayMs: number): Date {
    return new Date(this.#clock.now() + delayMs);
  }

  #deadlineOf(status: string): Date | null {
    if (status === "AWAITING_BUILD") return this.#in(awaitingBuildTimeoutMs);
    return status === "AWAITING_DEPLOY" ? this.#in(awaitingDeployTimeoutMs) : null;
  }
}
