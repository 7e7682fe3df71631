import type { ReplicaReport } from "../../contract/listeners/assignment.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { ClusterCompute, ClusterDeployment, ClusterKey, ClusterStatus, RolloutProblem } from "../cluster.ts";
import type { ReplicaLoad, ReplicaLogChunk } from "../compute.ts";
import { causeLinesMax } from "../exit-cause.ts";
import { type ApiServer, KubeError } from "./api/api-server.ts";
import { childKinds } from "./api/kinds.ts";
import { findAnchors, readAnchor } from "./apply/anchor.ts";
import { type Applied, applyWorkload } from "./apply/apply.ts";
import { WrittenObjects } from "./apply/drift.ts";
import { type Removal, removeDeployment } from "./apply/remove.ts";
import { setAsleep } from "./apply/sleep.ts";
import { stopDeployment } from "./apply/stop.ts";
import { type ClusterPolicy, type ClusterTraits, type IsReached, type IsRouted, rightsOf } from "./cluster-context.ts";
import { componentLabel, deploymentLabel, listenerLabel, revisionAnnotation } from "./render/names.ts";
import { managedText, selectorText } from "./render/render.ts";
import { agentPort } from "./render/render-pods.ts";
import { capabilitiesOf, discover } from "./watch/discover.ts";
import { lastExitOf } from "./watch/exits.ts";
import { causeWithLog } from "./watch/log-cause.ts";
import { readPodLog } from "./watch/pod-logs.ts";
import { type ClusterView, crashStreakOf, type PodView, readRollout } from "./watch/rollout.ts";
import { UsageReader } from "./watch/usage.ts";
import { type WatchEvent, watchKind } from "./watch/watch.ts";
import { ForbiddenWorkload, type Workload } from "./workload.ts";

export interface KubernetesOptions {
  api: ApiServer;
  /** Namespaces for deployments. The first one is the default. */
  namespaces: string[];
  policy: ClusterPolicy;
  /** Asks the gateway in the cluster whether it has a route to a deployment. Absent: it has one to each. */
  isRouted?: IsRouted | undefined;
  /** Absent: it cannot be known, for example because this listener runs outside the cluster. */
  isReached?: IsReached | undefined;
  logger: Logger;
  /** Interval for discovering newly installed operators. Default 5 minutes. */
  discoverMs?: number;
}

interface ServiceView {
  spec: { clusterIP?: string };
}

interface EventView {
  message: string;
  lastTimestamp: string;
}

const defaultDiscoverMs = 300_000;

/** Opens a cluster. @throws Error when the API server cannot be reached or is too old. */
export async function openKubernetesCluster(options: KubernetesOptions): Promise<ClusterCompute> {
  const traits = await discover(options.api, AbortSignal.timeout(30_000));
  return new KubernetesCluster(options, traits);
}

class KubernetesCluster implements ClusterCompute {
  readonly type = "kubernetes";
  readonly #options: KubernetesOptions;
  readonly #life = new AbortController();
  readonly #watched = new Set<string>();
  readonly #written = new Map<string, WrittenObjects>();
  /** Events during an apply are judged after it, when it is known which changes were ours. */
  readonly #applying = new Map<string, WatchEvent[]>();
  readonly #containers = new Map<
    string,
    { deploymentId: string; namespace: string; name: string; container: string }
  >();
  /** Actual namespaces of deployments that do not name one. */
  readonly #namespaces = new Map<string, string>();
  readonly #usage: UsageReader;
  readonly #rediscovery: NodeJS.Timeout;
  #traits: ClusterTraits;
  #notify: (deploymentId: string, isDrift: boolean) => void = () => {};

  constructor(options: KubernetesOptions, traits: ClusterTraits) {
    this.#options = options;
    this.#traits = traits;
    this.#usage = new UsageReader(options);
    this.#rediscovery = setInterval(() => void this.#discover(), options.discoverMs ?? defaultDiscoverMs);
    this.#rediscovery.unref();
  }

  facts() {
    return {
      capabilities: [...capabilitiesOf(this.#traits), ...rightsOf(this.#options.policy)],
      engine_version: this.#traits.version,
    };
  }

  async apply(workload: Workload, signal: AbortSignal): Promise<Applied> {
    const namespace = await this.#namespaceOf({ ...workload, namespace: workload.cluster.namespace }, signal);
    const { api, policy, isRouted } = this.#options;
    const maySleep = workload.maySleep && policy.hasAgentGateway;
    const placed = { ...workload, maySleep, cluster: { ...workload.cluster, namespace } };
    const context = { api, policy, isRouted, traits: this.#traits };
    const { deploymentId } = workload;
    const seen: WatchEvent[] = [];
    this.#applying.set(deploymentId, seen);
    const written = new WrittenObjects();
    let isWhole = false;
    try {
      const applied = await applyWorkload(context, placed, written, signal);
      isWhole = applied.waitingFor === null && applied.held === null;
      return applied;
    } catch (error) {
      if (!(error instanceof KubeError) || error.status !== 403) throw error;
      throw new ForbiddenWorkload(`The cluster refuses it: ${error.message}`, { cause: error });
    } finally {
      const known = this.#written.get(deploymentId) ?? new WrittenObjects();
      this.#written.set(deploymentId, isWhole ? written : known.mergedWith(written));
      this.#applying.delete(deploymentId);
      for (const event of seen) this.#handleEvent(deploymentId, event);
    }
  }

  async inspect(key: ClusterKey, signal: AbortSignal): Promise<ClusterStatus> {
    const { api } = this.#options;
    const { deploymentId } = key;
    const namespace = await this.#namespaceOf(key, signal);
    const query = { labelSelector: selectorText(deploymentId) };
    const list = async <T>(kind: string) => (await api.list<T>(kind, namespace, query, signal)).items;
    const [deployments, replicaSets, pods, claims] = await Promise.all([
      list<ClusterView["deployments"][number]>("Deployment"),
      list<ClusterView["replicaSets"][number]>("ReplicaSet"),
      list<PodView>("Pod"),
      list<ClusterView["claims"][number]>("PersistentVolumeClaim"),
    ]);
    const written = this.#written.get(deploymentId);
    const refusals = await this.#refusals(key, { namespace, pods }, signal);
    const view = {
      replicaSets,
      pods,
      claims,
      refusals,
      nowMs: Date.now(),
      // A Redis that is left of an earlier revision says nothing about this one.
      deployments: deployments.filter(({ metadata: { name, labels } }) => {
        return labels?.[componentLabel] !== "redis" || written?.has("Deployment", name);
      }),
    };
    const rollout = readRollout(view);
    const agents = pods.filter(({ metadata }) => ["server", "queue"].includes(metadata.labels?.[componentLabel] ?? ""));
    this.#forgetContainers(deploymentId);
    for (const pod of agents) {
      const { name } = pod.metadata;
      const container = containerOf(pod)?.name ?? "";
      // Until a container has run, the API server refuses to read its log.
      if (hasRun(pod, container)) this.#containers.set(name, { deploymentId, namespace, name, container });
    }
    const { revisionId, isReady, isStarted, sleep, findings } = rollout;
    const problems: RolloutProblem[] = [];
    for (const { weight, cause, since, crashed } of findings) {
      const lines = crashed === null ? [] : await this.#lastLines(namespace, crashed);
      problems.push({ weight, cause: causeWithLog(cause, lines), since });
    }
    const crashStreak = crashStreakOf(
      agents.filter(({ metadata }) => metadata.annotations?.[revisionAnnotation] === revisionId),
      view.nowMs,
    );
    const lastExit = revisionId === null ? undefined : lastExitOf(agents, revisionId);
    const replicas = agents.map((pod) => reportOf(pod, deploymentId));
    return { revisionId, isReady, isStarted, sleep, crashStreak, lastExit, problems, replicas };
  }

  async isReached(key: ClusterKey & { healthPath: string }, signal: AbortSignal): Promise<boolean> {
    const { api, isReached } = this.#options;
    const { deploymentId, slug, healthPath } = key;
    const written = this.#written.get(deploymentId);
    if (isReached === undefined || written?.has("Service", slug) !== true) return false;
    // The controllers of these routes do not report when they have learnt of a pod.
    if (written.has("Ingress", slug) || written.has("HTTPRoute", slug)) return false;
    const service = await api.get<ServiceView>("Service", await this.#namespaceOf(key, signal), slug, signal);
    const host = service?.spec.clusterIP ?? "None";
    if (host === "None") return false;
    const url = `http://${host.includes(":") ? `[${host}]` : host}:${agentPort}${healthPath}`;
    return isReached({ deploymentId, url }, signal);
  }

  async stop(key: ClusterKey & { epoch: number; generation: number }, signal: AbortSignal): Promise<void> {
    const { api, policy } = this.#options;
    const namespace = await this.#namespaceOf(key, signal);
    // From here on, changes are no drift.
    this.#written.delete(key.deploymentId);
    await stopDeployment({ api, policy, traits: this.#traits }, { ...key, namespace }, signal);
    this.#forgetContainers(key.deploymentId);
  }

  async setAsleep(key: ClusterKey, isAsleep: boolean, signal: AbortSignal): Promise<void> {
    const namespace = await this.#namespaceOf(key, signal);
    await setAsleep(this.#options.api, { namespace, name: key.slug }, isAsleep, signal);
  }

  async remove({ deploymentId, namespace }: Omit<ClusterKey, "slug">, signal: AbortSignal): Promise<Removal> {
    const { api, policy, namespaces } = this.#options;
    if (namespace !== null && !namespaces.includes(namespace)) {
      throw new Error(`it belongs in the namespace ${namespace}, which this listener does not serve (any more)`);
    }
    // From here on, changes are no drift.
    this.#written.delete(deploymentId);
    const removal = await removeDeployment({ api, policy, traits: this.#traits }, deploymentId, namespaces, signal);
    if (removal.namespace !== null) this.#namespaces.set(deploymentId, removal.namespace);
    if (removal.isGone) {
      throwUnseen(removal.refused, this.#namespaces.get(deploymentId));
      this.#forgetContainers(deploymentId);
      // The control plane repeats the call until the deletion is reported.
      if (removal.refused.size === 0) this.#namespaces.delete(deploymentId);
    }
    return removal;
  }

  async list(signal: AbortSignal): Promise<ClusterDeployment[]> {
    const { api, namespaces, logger } = this.#options;
    const labelSelector = `${managedText},${componentLabel}=anchor`;
    const { anchors, refused } = await findAnchors(api, namespaces, labelSelector, signal);
    for (const [namespace, error] of refused)
      logger.warn({ namespace, error: describeError(error) }, "listing deployments failed");
    return anchors.map((anchor) => {
      const { namespace, labels } = anchor.metadata;
      const deploymentId = labels?.[deploymentLabel] ?? "";
      return { deploymentId, namespace, slug: readAnchor(anchor).slug, listenerId: labels?.[listenerLabel] ?? null };
    });
  }

  readLoads(signal: AbortSignal): Promise<ReplicaLoad[] | null> {
    return this.#usage.read(this.#traits, signal);
  }

  onChange(changed: (deploymentId: string, isDrift: boolean) => void): void {
    this.#notify = changed;
    this.#watch();
  }

  async readLogs(replicaId: string, after: string | null, bytesMax: number): Promise<ReplicaLogChunk> {
    const container = this.#containers.get(replicaId);
    if (container === undefined) return { lines: [], cursor: after ?? "" };
    return readPodLog(this.#options.api, container, after, bytesMax);
  }

  async close(): Promise<void> {
    clearInterval(this.#rediscovery);
    this.#life.abort(new Error("the cluster is closed"));
    this.#options.api.close();
  }

  /** Starts watches for kinds that the cluster has begun to serve. */
  #watch(): void {
    const { api, namespaces, logger } = this.#options;
    const { signal } = this.#life;
    const onEvent = (event: WatchEvent) => {
      const deploymentId = event.object.metadata.labels?.[deploymentLabel];
      if (deploymentId !== undefined) this.#handleEvent(deploymentId, event);
    };
    for (const kind of [...childKinds(this.#traits), "ConfigMap", "Pod"]) {
      if (this.#watched.has(kind)) continue;
      this.#watched.add(kind);
      for (const namespace of namespaces) {
        void watchKind(api, { kind, namespace, labelSelector: managedText }, { onEvent, logger, signal });
      }
    }
  }

  #forgetContainers(deploymentId: string): void {
    for (const [name, of] of this.#containers) if (of.deploymentId === deploymentId) this.#containers.delete(name);
  }

  #handleEvent(deploymentId: string, event: WatchEvent): void {
    const seen = this.#applying.get(deploymentId);
    if (seen !== undefined) seen.push(event);
    else this.#notify(deploymentId, this.#written.get(deploymentId)?.isDrift(event.type, event.object) ?? false);
  }

  /** Reads events, because the status of a StatefulSet, unlike that of a Deployment, does not say why it has no pod. */
  async #refusals(
    { deploymentId, slug }: ClusterKey,
    { namespace, pods }: { namespace: string; pods: PodView[] },
    signal: AbortSignal,
  ): Promise<string[]> {
    const name = `${slug}-postgres`;
    const hasPod = pods.some(({ metadata }) => metadata.name === `${name}-0`);
    if (hasPod || this.#written.get(deploymentId)?.has("StatefulSet", name) !== true) return [];
    const fieldSelector = `involvedObject.kind=StatefulSet,involvedObject.name=${name},reason=FailedCreate`;
    const { items } = await this.#options.api.list<EventView>("Event", namespace, { fieldSelector }, signal);
    const last = items.toSorted((a, b) => (a.lastTimestamp < b.lastTimestamp ? -1 : 1)).at(-1);
    return last === undefined ? [] : [last.message];
  }

  async #lastLines(namespace: string, { pod, container }: { pod: string; container: string }): Promise<string[]> {
    const query = { container, previous: true, tailLines: causeLinesMax };
    try {
      const text = await this.#options.api.readLog({ namespace, name: pod }, query, AbortSignal.timeout(5_000));
      return text.trimEnd().split("\n");
    } catch {
      // The pod is gone or its node does not answer: the exit code must suffice.
      return [];
    }
  }

  async #discover(): Promise<void> {
    try {
      this.#traits = await discover(
        this.#options.api,
        AbortSignal.any([this.#life.signal, AbortSignal.timeout(30_000)]),
      );
      if (this.#watched.size > 0) this.#watch();
    } catch {
      // Keeps what was discovered before.
    }
  }

  /** Returns the first namespace, unless the deployment already lives in another: its data is there, even if the order has changed. */
  async #namespaceOf(
    { deploymentId, namespace: wanted }: Pick<ClusterKey, "deploymentId" | "namespace">,
    signal: AbortSignal,
  ): Promise<string> {
    const { api, namespaces } = this.#options;
    const [first, ...others] = namespaces as [string, ...string[]];
    if (wanted !== null || others.length === 0) return wanted ?? first;
    const known = this.#namespaces.get(deploymentId);
    if (known !== undefined) return known;
    const { anchors, refused } = await findAnchors(api, namespaces, selectorText(deploymentId), signal);
    const [anchor] = anchors;
    if (anchor === undefined) throwUnseen(refused);
    const namespace = anchor?.metadata.namespace ?? first;
    this.#namespaces.set(deploymentId, namespace);
    return namespace;
  }
}

/** For a deployment that was not found: it may be in a namespace that could not be inspected. @throws KubeError */
function throwUnseen(refused: Map<string, KubeError>, knownNamespace?: string): void {
  for (const [namespace, error] of refused)
    if (knownNamespace === undefined || knownNamespace === namespace) throw error;
}

/** Returns the agent's own container. Others may come first, for example the injected proxy of a service mesh. */
const containerOf = ({ spec: { containers } }: PodView) =>
  containers.find(({ name }) => name === "api-server" || name === "queue") ?? containers[0];

const hasRun = ({ status: { containerStatuses = [] } }: PodView, container: string) =>
  containerStatuses.some(({ name, state, lastState }) => {
    return name === container && (state?.running ?? state?.terminated ?? lastState?.terminated) !== undefined;
  });

function reportOf(pod: PodView, deploymentId: string): ReplicaReport & { deployment_id: string } {
  const { metadata, status } = pod;
  const isReady = status.conditions?.some(({ type, status: holds }) => type === "Ready" && holds === "True") ?? false;
  const hasEnded = status.phase === "Failed" || status.phase === "Succeeded";
  const running = hasEnded ? "exited" : isReady ? "ready" : "starting";
  const limits = containerOf(pod)?.resources?.limits ?? {};
  return {
    deployment_id: deploymentId,
    replica_id: metadata.name,
    revision_id: metadata.annotations?.[revisionAnnotation] ?? "",
    phase: metadata.deletionTimestamp === undefined ? running : "draining",
    address: isReady && status.podIP !== undefined ? `${status.podIP}:8000` : null,
    restarts: status.containerStatuses?.reduce((sum, { restartCount }) => sum + restartCount, 0) ?? 0,
    started_at: status.startTime ?? null,
    limits: { memory: limits["memory"] ?? "none", cpu: limits["cpu"] ?? "none" },
  };
}
