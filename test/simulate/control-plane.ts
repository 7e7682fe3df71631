// Loaded before the first history: a step imports it on demand, which would take real time in virtual time.
import "../../src/compute/docker/images/images.ts";
import type { BuildResult } from "../../src/builds/build.ts";
import type { Send } from "../../src/client/listener-client.ts";
import { isBeingDeleted } from "../../src/domain/deployment-status.ts";
import { backOffMinMs, buildLeaseMs, buildTimeoutMs, deployTimeoutMs } from "../../src/domain/limits.ts";
import { canMoveRevision } from "../../src/domain/revision-status.ts";
import { DatabaseServerError } from "../../src/provision/database-server.ts";
import { BuildRunner } from "../../src/reconciler/builds/build-runner.ts";
import type { ReconcilerSettings, StepDeps } from "../../src/reconciler/deps.ts";
import { reconcileDeployment } from "../../src/reconciler/loop/reconcile.ts";
import type { Outcome } from "../../src/reconciler/plan/outcome.ts";
import { Slots } from "../../src/reconciler/slots.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { ControlPlane } from "../listener/control-plane.ts";
import type { VirtualClock } from "../listener/virtual-world.ts";
import { foreignKeyViolation, MemoryStore, tenantId } from "./memory-store.ts";
import { VirtualQueue } from "./queue.ts";
import type { DeploymentRecord, RevisionRecord } from "./records.ts";
import { virtualWorkers } from "./virtual-builds.ts";

/** A server of the control plane. It dies without a word, and another server takes over its work when its leases run out. */
interface Server {
  name: string;
  isDead: boolean;
  /** Claims what is due, soon. */
  wake: () => void;
  deps: StepDeps;
}

const pollDelayMs = 500;

/** Before each statement: long enough for every other process to act in between. */
const pauseMaxMs = 400;
/** Sometimes longer than the lease, so that two passes run over one deployment at once. */
const stallMs = 45_000;

const settings: ReconcilerSettings = {
  mode: "self_hosted",
  computeType: "docker",
  buildTarget: {
    kind: "image",
    host: "unix:///simulated",
    installationId: "simulated",
    nodeImage: "node",
    pythonImage: "python:{version}",
    registryAuthFile: null,
    memoryMib: 1,
    cpuCores: 1,
  },
  allowLocalSources: false,
  allowPrivateNetwork: false,
  templatesDir: "/simulated",
  dataDir: "/simulated",
  cacheDir: "/simulated",
  controlPlaneUrl: "http://control-plane",
  hasEndpointAuth: false,
  deploymentsUrl: "http://control-plane/d/",
  deployTimeoutMs,
  buildTimeoutMs,
  drainTimeoutMs: 20_000,
  idleAfterMs: 120_000,
  branchPollMs: 300_000,
  hasTracing: false,
  baseImages: { installationId: "", nodeImage: "", pythonImage: "" },
};

/**
 * Errors that fail a pass in production too, so that it is retried: a database server that is away during a delete, or a
 * deployment that another server deleted while this pass stalled.
 */
const isExpected = (error: unknown) =>
  error instanceof DatabaseServerError ||
  (error instanceof Error &&
    (/has no artifact to run/.test(error.message) || error.message.startsWith(foreignKeyViolation)));

const logger = createLogger("silent");

/**
 * A control plane on virtual time. Passes, steps and builds are the real ones of `src/reconciler`; the store and the queue
 * are in memory, and build processes are timers. Two servers work on it and die.
 */
export class SimulatedControlPlane {
  readonly protocol: ControlPlane;
  readonly store: MemoryStore;
  /** Called for each event that a history counts. */
  count: (event: string) => void = () => {};
  /** First error of a pass that must never occur. */
  failure: unknown;
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
    this.store = new MemoryStore(clock, this.protocol, this.#queue);
    this.protocol.onReports = (reports, epoch) => {
      for (const report of reports) this.store.storeReport(report, epoch);
    };
    for (let count = 0; count < 2; count++) this.#startServer();
  }

  get deployments(): ReadonlyMap<string, DeploymentRecord> {
    return this.store.deployments;
  }

  get send(): Send {
    return this.protocol.send;
  }

  interrupt(deploymentId: string, { id, status }: RevisionRecord): void {
    if (!canMoveRevision(status, "INTERRUPTED")) return;
    const move = { from: status, to: "INTERRUPTED", because: "interrupted by a user", deadlineAt: null } as const;
    void this.store.moveRevision({ id, deploymentId }, move);
  }

  delete({ id, status }: DeploymentRecord): void {
    if (!isBeingDeleted(status)) void this.store.requestDelete(tenantId, id);
  }

  /** Kills one server in the middle of its work and starts another. */
  killServer(): void {
    const victim = this.#clock.oneOf(this.#servers);
    if (victim === undefined) return;
    victim.isDead = true;
    this.#servers = this.#servers.filter((server) => server !== victim);
    this.#startServer();
  }

  #startServer(): void {
    this.#serverCount += 1;
    const server: Server = {
      name: `server-${this.#serverCount}`,
      isDead: false,
      wake: () => {},
      deps: {} as StepDeps,
    };
    server.deps = this.#depsOf(server);
    this.#servers.push(server);
    let cancel = () => {};
    const claimAt = (atMs: number) => {
      cancel();
      if (atMs < Number.POSITIVE_INFINITY) cancel = this.#clock.setTimeout(claimDue, atMs - this.#clock.now());
    };
    server.wake = () => claimAt(this.#queue.nextAtMs() + pollDelayMs * this.#clock.random());
    const claimDue = () => {
      if (server.isDead) return;
      for (let claim = this.#queue.claim(server.name); claim !== null; claim = this.#queue.claim(server.name)) {
        void this.#pass(server, claim);
      }
      server.wake();
    };
    server.wake();
  }

  #depsOf(server: Server): StepDeps {
    const store = this.#connect(server);
    const workers = virtualWorkers(
      this.#clock,
      () => server.isDead,
      (revisionId) => this.#planBuild(revisionId),
    );
    const ended = { inc: () => this.count("a build ends") };
    const builds = new BuildRunner(
      { store, workers, logger, ended: ended as never },
      { owner: server.name, concurrencyMax: 1_000, leaseMs: buildLeaseMs },
    );
    const databaseCall = async () => {
      if (this.#clock.chance(0.1)) throw new DatabaseServerError("PostgreSQL at db.internal:5432: ECONNREFUSED");
    };
    const deps: Omit<StepDeps, "github" | "codeHosts"> = {
      store,
      logger,
      traces: null,
      builds,
      outward: new Slots(1_000),
      settings,
      databases: {
        shared: { postgres: { ensure: databaseCall, remove: databaseCall, environment: () => ({}) }, redis: null },
        container: null,
        areContainersWanted: false,
      },
      tracing: null,
      images: { resolve: async (uri) => this.#resolveImage(uri) },
      files: {
        isDiskLow: async () => false,
        locateUpload: async (path: string) => ({ path }),
        removeUploads: async () => {},
        removeArtifact: async () => true,
      },
    };
    // No history has a repository.
    return deps as StepDeps;
  }

  /** Returns the store as one server sees it: each statement takes time, and none returns to a server that is dead. */
  #connect(server: Server): MemoryStore {
    const immediate = new Set<string | symbol>(["now", "reached", "wake"]);
    return new Proxy(this.store, {
      get: (store, name) => {
        const method = Reflect.get(store, name, store) as (...args: unknown[]) => unknown;
        if (immediate.has(name)) return method.bind(store);
        return async (...args: unknown[]) => {
          await this.#pause(server);
          this.count("a statement runs");
          return method.apply(store, args);
        };
      },
    });
  }

  /** Never resolves once the server is dead. */
  #pause(server: Server): Promise<void> {
    const delayMs = this.#clock.chance(0.002) ? stallMs : this.#clock.random() * pauseMaxMs;
    return new Promise((resolve) => {
      this.#clock.setTimeout(() => void (server.isDead || resolve()), delayMs);
    });
  }

  async #pass(server: Server, { id, holder }: { id: string; holder: string }): Promise<void> {
    this.count("a pass runs");
    let outcome: Outcome;
    try {
      outcome = await reconcileDeployment(server.deps, id, new AbortController().signal);
    } catch (error) {
      if (!isExpected(error)) this.failure ??= error;
      this.count("a pass fails");
      this.#queue.settle(id, holder, this.#clock.now() + backOffMinMs);
      return;
    }
    if (outcome.kind === "converged" && outcome.isGone) this.#queue.forget(id);
    else this.#queue.settle(id, holder, outcome.kind === "waiting" ? (outcome.retryAt?.getTime() ?? null) : null);
  }

  #resolveImage(uri: string) {
    const revision = this.store.findRevision(uri.split(":").at(-1) ?? "");
    if (!revision?.fate.resolves) return { ok: false as const, message: `There is no image ${uri}.` };
    const keepsState = this.deployments.get(revision.deploymentId)?.isStateful ?? false;
    return { ok: true as const, uri, digest: `sha256:${revision.id}`, keepsState };
  }

  #planBuild(revisionId: string): { durationMs: number; result: BuildResult } {
    const revision = this.store.findRevision(revisionId);
    const rollout = this.deployments.get(revision?.deploymentId ?? "")?.isStateful ? "handover" : "rolling";
    const uri = `example/agent:${revisionId}`;
    return {
      durationMs: revision?.fate.buildMs ?? 0,
      result: revision?.fate.builds
        ? {
            ok: true,
            artifact: { kind: "image", digest: `sha256:${revisionId}`, uri, health_path: "/ok", rollout },
            cached: false,
            steps: [],
          }
        : { ok: false, reason: "BuildFailed", message: "npm ended with code 1" },
    };
  }
}
