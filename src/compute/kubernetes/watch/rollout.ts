import type { Cause } from "../../../contract/listeners/assignment.ts";
import { findMissingVariables } from "../../start-cause.ts";
import { asleepAnnotation, componentLabel, revisionAnnotation } from "../render/names.ts";
import { causeOfEviction, evictedAt, isEvicted } from "./evictions.ts";

interface Metadata {
  name: string;
  generation?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  creationTimestamp: string;
  deletionTimestamp?: string;
}

interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface DeploymentView {
  metadata: Metadata;
  spec: { replicas?: number; paused?: boolean; template: { metadata: { annotations?: Record<string, string> } } };
  status?: {
    observedGeneration?: number;
    replicas?: number;
    updatedReplicas?: number;
    readyReplicas?: number;
    availableReplicas?: number;
    conditions?: Condition[];
  };
}

export interface Termination {
  exitCode: number;
  reason?: string;
  message?: string;
  signal?: number;
  finishedAt?: string | null;
}

interface ContainerStatus {
  name: string;
  image: string;
  restartCount: number;
  state?: {
    waiting?: { reason?: string; message?: string };
    terminated?: Termination;
    running?: { startedAt: string };
  };
  ready?: boolean;
  lastState?: { terminated?: Termination };
}

export interface PodView {
  metadata: Metadata;
  spec: { containers: { name: string; resources?: { limits?: Record<string, string> } }[] };
  status: {
    phase?: string;
    /** Why a whole pod failed, for example Evicted. */
    reason?: string;
    message?: string;
    podIP?: string;
    startTime?: string;
    conditions?: Condition[];
    containerStatuses?: ContainerStatus[];
    initContainerStatuses?: ContainerStatus[];
  };
}

export interface ClusterView {
  deployments: DeploymentView[];
  replicaSets: { metadata: Metadata }[];
  pods: PodView[];
  claims: { metadata: Metadata; status?: { phase?: string } }[];
  /** Why a database of ours has no pod, in the cluster's words; empty: it has a pod or needs none. */
  refusals: string[];
  /** Time of the view, by our clock. */
  nowMs: number;
}

/**
 * When a finding fails the rollout: at once, after it has lasted for a while, or only at the deadline. `wait`: nothing is wrong,
 * and the finding says what a rollout waits for.
 */
export type Weight = "now" | "grace" | "deadline" | "wait";

export interface Finding {
  weight: Weight;
  cause: Cause;
  /** Since when, by the cluster's clock; absent: the cluster does not say. */
  since?: string | undefined;
  /** Crashed container whose last lines explain the finding. */
  crashed: { pod: string; container: string } | null;
}

export interface Rollout {
  /** Revision of the server's pod template; null: there is no server yet. */
  revisionId: string | null;
  isReady: boolean;
  /** Its pods are ready, maybe not for long enough to replace others. */
  isStarted: boolean;
  /** asleep: it has no replicas until a request wakes it. waking: it was woken, and that is not recorded yet. */
  sleep: "asleep" | "waking" | null;
  /** Most serious first. */
  findings: Finding[];
}

const weights: Weight[] = ["now", "grace", "deadline", "wait"];

/** Returns how far the newest pod templates of a deployment are, and what blocks them. Pure. */
export function readRollout(view: ClusterView): Rollout {
  const isOf = (...components: string[]) => {
    return ({ metadata }: { metadata: Metadata }) => components.includes(metadata.labels?.[componentLabel] ?? "");
  };
  const parts = view.deployments.filter(isOf("server", "queue"));
  const server = parts.find(isServer);
  // Databases first: without them the agent cannot start.
  const findings = [
    ...findingsOfClaims(view),
    ...view.refusals.map(refusedPods),
    ...view.pods.filter(isOf("postgres")).flatMap((pod) => findingsOfPod(pod, view)),
    ...[...view.deployments.filter(isOf("redis")), ...parts].flatMap((part) => findingsOf(part, view)),
  ];
  return {
    revisionId: server?.spec.template.metadata.annotations?.[revisionAnnotation] ?? null,
    isReady: server !== undefined && parts.every((part) => isRolledOut(part, "availableReplicas")),
    isStarted: server !== undefined && parts.every((part) => isRolledOut(part, "readyReplicas")),
    sleep: sleepOf(server),
    findings: findings.toSorted((a, b) => weights.indexOf(a.weight) - weights.indexOf(b.weight)),
  };
}

function sleepOf(server: DeploymentView | undefined): Rollout["sleep"] {
  if (server?.metadata.annotations?.[asleepAnnotation] === undefined) return null;
  return server.spec.replicas === 0 ? "asleep" : "waking";
}

function isRolledOut(deployment: DeploymentView, counted: "availableReplicas" | "readyReplicas"): boolean {
  const { spec, status = {} } = deployment;
  // An autoscaler does not scale up a server that a user has scaled to zero.
  const wanted = Math.max(spec.replicas ?? 1, isServer(deployment) ? 1 : 0);
  const { replicas = 0, updatedReplicas = 0, [counted]: serving = 0 } = status;
  return isObserved(deployment) && updatedReplicas >= wanted && replicas === updatedReplicas && serving >= wanted;
}

/** Tells whether the cluster's controller has processed the latest write. Until then its status describes the previous one. */
const isObserved = ({ metadata, status }: DeploymentView) =>
  (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);

/**
 * Returns the pods of the newest ReplicaSet, because older ones have their own problems. Excludes other revisions: the lists
 * are not from the same moment, so the newest listed ReplicaSet may be the previous one.
 */
function newestPods({ metadata, spec }: DeploymentView, { replicaSets, pods }: ClusterView): PodView[] {
  const own = replicaSets.filter(
    ({ metadata: { name } }) =>
      name.startsWith(`${metadata.name}-`) && !name.slice(metadata.name.length + 1).includes("-"),
  );
  const number = ({ metadata: { annotations } }: { metadata: Metadata }) =>
    Number(annotations?.["deployment.kubernetes.io/revision"] ?? 0);
  const hash = own.toSorted((a, b) => number(b) - number(a))[0]?.metadata.labels?.["pod-template-hash"];
  const revisionId = spec.template.metadata.annotations?.[revisionAnnotation];
  return pods.filter(
    ({ metadata: { labels, annotations } }) =>
      hash !== undefined && labels?.["pod-template-hash"] === hash && annotations?.[revisionAnnotation] === revisionId,
  );
}

const isServer = ({ metadata }: DeploymentView) => metadata.labels?.[componentLabel] === "server";

/** Reports settings by hand that make the cluster's controllers wait without ever reporting a timeout. */
function findingsOfPauses(deployment: DeploymentView): Finding[] {
  const { spec, metadata } = deployment;
  const isStopped = spec.replicas === 0 && isServer(deployment) && sleepOf(deployment) === null;
  if (!isStopped && spec.paused !== true) return [];
  const what = isStopped ? "The server is scaled to zero" : "The rollout is paused";
  const command = isStopped
    ? `kubectl scale deployment/${metadata.name} --replicas=1`
    : `kubectl rollout resume deployment/${metadata.name}`;
  return [finding("deadline", "NotHealthy", `${what} in the cluster. To resume it: ${command}`)];
}

function findingsOf(deployment: DeploymentView, view: ClusterView): Finding[] {
  if (!isObserved(deployment)) return [];
  const conditions = deployment.status?.conditions ?? [];
  const refused = conditions.find(({ type, status }) => type === "ReplicaFailure" && status === "True");
  const timedOut = conditions.find(
    ({ type, reason }) => type === "Progressing" && reason === "ProgressDeadlineExceeded",
  );
  // After the timeout, even temporary problems count.
  const inTime = newestPods(deployment, view).flatMap((pod) => findingsOfPod(pod, view));
  const waits = inTime.filter(({ weight }) => weight === "wait");
  const troubles = inTime.filter(({ weight }) => weight !== "wait");
  const ofPods = timedOut === undefined ? troubles : troubles.map((one) => ({ ...one, weight: "now" as const }));
  const text = `The pods did not become ready in time. ${waits[0]?.cause.message ?? timedOut?.message ?? ""}`.trim();
  return [
    ...findingsOfPauses(deployment),
    ...ofPods,
    ...(refused === undefined ? [] : [refusedPods(refused.message)]),
    ...(timedOut === undefined ? waits : [finding(ofPods.length > 0 ? "deadline" : "now", "NotHealthy", text)]),
  ];
}

const refusedPods = (message = "") => finding("grace", "Forbidden", `The cluster refuses to create pods: ${message}`);

function findingsOfPod(pod: PodView, { nowMs }: ClusterView): Finding[] {
  const { name } = pod.metadata;
  // The cluster starts another pod. That helps if a node lacked room, but not if the pod's own limit is too low.
  if (isEvicted(pod)) {
    const cause = causeOfEviction(pod);
    return [{ weight: cause.reason === "OutOfDisk" ? "grace" : "deadline", cause, crashed: null }];
  }
  const scheduled = pod.status.conditions?.find(({ type }) => type === "PodScheduled");
  const isUnschedulable = scheduled?.status === "False";
  const noRoom = `No node has room for a pod: ${scheduled?.message ?? scheduled?.reason}`;
  const since = scheduled?.lastTransitionTime;
  return [
    ...(isUnschedulable ? [{ ...finding("deadline", "Unschedulable", noRoom), since }] : []),
    ...(pod.status.initContainerStatuses ?? []).flatMap((one) =>
      findingOfContainer(name, one, { isInit: true, nowMs }),
    ),
    ...(pod.status.containerStatuses ?? []).flatMap((one) => {
      const found = findingOfContainer(name, one, { isInit: false, nowMs });
      return found.length > 0 ? found : findingOfSlowStart(pod, one, nowMs);
    }),
  ];
}

const pullReasons = ["ErrImagePull", "ImagePullBackOff"];
const startReasons = [
  "RunContainerError",
  "CreateContainerError",
  "CreateContainerConfigError",
  "InvalidImageName",
  "ErrImageNeverPull",
  "StartError",
  "PreCreateHookError",
];

/** A container that has run this long since its last exit may just be slow to get ready. Clocks of nodes differ by seconds. */
const stableMs = 60_000;
const isStable = ({ state }: ContainerStatus, nowMs: number) =>
  state?.running !== undefined && nowMs - Date.parse(state.running.startedAt) > stableMs;

/** Messages of an overloaded node, which uses the same reasons for a moment and then retries. */
const transient = /timed out|deadline exceeded|failed to sync|is reserved for/i;

/** A container that has waited this long is worth a word; most start faster. Clocks of nodes differ by seconds. */
const slowMs = 10_000;

/** Says what a container waits for that has no problem yet. */
function findingOfSlowStart({ metadata, status }: PodView, container: ContainerStatus, nowMs: number): Finding[] {
  const { running, waiting } = container.state ?? {};
  const sinceText = running?.startedAt ?? status.startTime;
  const waitedMs = nowMs - Date.parse(sinceText ?? "");
  if (metadata.deletionTimestamp !== undefined || !(waitedMs > slowMs)) return [];
  if (waiting?.reason === "ContainerCreating") {
    const text = `The node is preparing the container '${container.name}': it pulls the image ${container.image} or attaches disks.`;
    return [finding("wait", "Starting", text)];
  }
  if (running === undefined || container.ready !== false) return [];
  const text = `The container '${container.name}' runs, but its health check does not pass yet.`;
  return [finding("wait", "NotHealthy", text)];
}

function findingOfContainer(
  pod: string,
  status: ContainerStatus,
  { isInit, nowMs }: { isInit: boolean; nowMs: number },
): Finding[] {
  const { waiting } = status.state ?? {};
  const ended = status.lastState?.terminated ?? status.state?.terminated;
  const reason = waiting?.reason ?? "";
  const message = waiting?.message ?? "";
  if (pullReasons.includes(reason)) {
    return [finding("grace", "ImagePull", `The image ${status.image} cannot be pulled: ${message}`)];
  }
  if (startReasons.includes(reason)) {
    const text = `The container '${status.name}' cannot be started: ${reason}: ${message}`;
    return [finding(transient.test(message) ? "grace" : "now", "StartError", text)];
  }
  const isLoop = reason === "CrashLoopBackOff";
  if (ended === undefined || (!isLoop && (ended.exitCode === 0 || status.restartCount < 2))) return [];
  if (hasRecovered(status, { isInit, nowMs })) return [];
  const crashed = { pod, container: status.name };
  const weight = isStable(status, nowMs) ? "deadline" : "grace";
  const what = isInit ? `The init container '${status.name}'` : `The container '${status.name}'`;
  if (ended.reason === "OOMKilled") {
    const text = `${what} was killed because it used more memory than its limit. Raise the limit in resource_spec.`;
    return [{ ...finding(weight, "OutOfMemory", text, ended.exitCode), crashed }];
  }
  const text = `${what} keeps exiting with exit code ${ended.exitCode}. ${ended.message ?? ""}`.trim();
  if (isInit) return [{ ...finding(weight, "InitFailed", text, ended.exitCode), crashed }];
  return [{ ...withMissingVariables(finding(weight, "Exited", text, ended.exitCode), ended.message ?? ""), crashed }];
}

/** A termination message may be the end of the log. */
function withMissingVariables(found: Finding, message: string): Finding {
  const missing = findMissingVariables(message.split("\n"), []);
  return missing === null ? found : { ...found, cause: { ...found.cause, variables: missing.names } };
}

/** After this long without an exit, a kubelet forgets its back-off, and the streak is over. */
const streakOverMs = 600_000;

/** Back-off of a kubelet after the second exit in a row. It doubles with each further one, to five minutes. */
const firstBackOffS = 10;

/**
 * Returns the longest streak of exits among the containers of these pods, each soon after its start, as the kubelet's back-off
 * shows it: restarts of long ago do not count. Null: a container has started again.
 */
export function crashStreakOf(pods: PodView[], nowMs: number): number | null {
  const streaks = pods.flatMap(({ status }) => (status.containerStatuses ?? []).map((one) => streakOf(one, nowMs)));
  const longest = Math.max(evictionsInARow(pods, nowMs), ...streaks.map((streak) => streak ?? 0));
  return longest === 0 && streaks.includes(null) ? null : longest;
}

/** Counts pods, because the cluster replaces an evicted pod by a new one instead of restarting its containers. */
function evictionsInARow(pods: PodView[], nowMs: number): number {
  const lately = pods.filter((pod) => {
    const at = Date.parse((isEvicted(pod) && evictedAt(pod)) || "");
    return nowMs - at < streakOverMs && at - Date.parse(pod.status.startTime ?? "") < streakOverMs;
  });
  const replicas = pods.filter(({ status }) => status.phase !== "Failed").length;
  return Math.floor(lately.length / Math.max(1, replicas));
}

function streakOf(status: ContainerStatus, nowMs: number): number | null {
  const { state = {}, lastState, restartCount } = status;
  if (state.waiting?.reason === "CrashLoopBackOff") {
    const [, minutes = "0", seconds = "0"] = /back-off (?:(\d+)m)?(\d+)s/.exec(state.waiting.message ?? "") ?? [];
    const backOffS = Math.max(firstBackOffS, 60 * Number(minutes) + Number(seconds));
    return Math.min(restartCount + 1, 2 + Math.round(Math.log2(backOffS / firstBackOffS)));
  }
  const isOver = state.running !== undefined && nowMs - Date.parse(state.running.startedAt) > streakOverMs;
  return (lastState?.terminated !== undefined && !isOver) || state.terminated !== undefined ? null : 0;
}

/** Whether the exits of a container are history: an init container has succeeded since, a server is ready and stays up. */
function hasRecovered(status: ContainerStatus, { isInit, nowMs }: { isInit: boolean; nowMs: number }): boolean {
  return isInit ? status.state?.terminated?.exitCode === 0 : status.ready === true && isStable(status, nowMs);
}

function findingsOfClaims({ claims }: ClusterView): Finding[] {
  return claims
    .filter(({ status }) => status?.phase === "Pending")
    .map(({ metadata }) =>
      finding(
        "deadline",
        "Storage",
        `The disk ${metadata.name} was not created. Does the cluster have a default StorageClass?`,
      ),
    );
}

function finding(weight: Weight, reason: string, message: string, exitCode: number | null = null): Finding {
  return { weight, cause: { reason, message, exit_code: exitCode, signal: null, last_lines: [] }, crashed: null };
}
