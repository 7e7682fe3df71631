import path from "node:path";
import { fileURLToPath } from "node:url";
import type { BuildEnd, BuildLogLine } from "../../../contract/listeners/build-order.ts";
import type { ImageRemoval, ImageRemovalEnd } from "../../../contract/listeners/image-removal.ts";
import type { ImageBuild, ImageBuilds } from "../../image-builds.ts";
import { type ApiServer, KubeError } from "../api/api-server.ts";
import type { LiveObject } from "../api/manifest.ts";
import { listenerLabel } from "../render/names.ts";
import { readPodLog } from "../watch/pod-logs.ts";
import { type BuildPod, type Condition, endOfPod, endOfRemoval, failed, stopped } from "./build-end.ts";
import { BuildProgressReader } from "./progress.ts";
import {
  type BuildPolicy,
  buildContainer,
  buildLabel,
  buildName,
  cacheContainer,
  pushContainer,
  renderBuildJob,
  renderBuildSecret,
  renderRemovalJob,
} from "./render-build.ts";

interface JobView extends LiveObject {
  status?: { conditions?: Condition[] };
}

const logBytesMax = 1024 * 1024;

/** A cluster creates the pod of a Job within seconds, unless a quota or a policy forbids it. */
const podDueMs = 30_000;

const programFile = (name: string) =>
  fileURLToPath(new URL(`./${name}${path.extname(import.meta.url)}`, import.meta.url));

/** Programs of builds. They are at the same paths in every container of Pierhead's image. */
export const buildPrograms = {
  push: programFile("push-image"),
  restoreCache: programFile("restore-cache"),
  removeImages: programFile("remove-images"),
};

/** Builds images in Jobs, each in a pod of its own. */
export class KubernetesBuilds implements ImageBuilds {
  readonly #api: ApiServer;
  readonly #policy: BuildPolicy;
  /** By build. It may be lost: the message of a failure is then shorter. */
  readonly #progress = new Map<string, BuildProgressReader>();

  constructor(api: ApiServer, policy: BuildPolicy) {
    this.#api = api;
    this.#policy = policy;
  }

  async start(build: ImageBuild, listenerId: string, signal: AbortSignal): Promise<void> {
    const job = renderBuildJob(build, this.#policy, listenerId);
    await this.#api.create(job, signal);
    const created = await this.#api.get<JobView>("Job", this.#policy.namespace, job.metadata.name, signal);
    if (created === null) throw new Error("the Job of the build was deleted");
    await this.#api.create(renderBuildSecret(build, job, created.metadata.uid), signal);
  }

  async inspect(id: string, signal: AbortSignal): Promise<BuildEnd | null> {
    const { namespace } = this.#policy;
    const job = await this.#api.get<JobView>("Job", namespace, buildName(id), signal);
    if (job === null) return failed("BuilderFailed", "The Job of the build was deleted in the cluster.");
    const pod = await this.#pod(id, signal);
    // The cluster stops the pod at FailureTarget, before the Job has Failed.
    const condition = job.status?.conditions?.find(
      ({ type, status }) => (type === "Failed" || type === "FailureTarget") && status === "True",
    );
    if (condition?.reason === "DeadlineExceeded")
      return failed("Timeout", "The build did not end in time and was stopped.");
    const limits = { memoryMib: this.#policy.memoryMib, failure: () => this.#reader(id).failure() };
    const end = pod === undefined ? null : endOfPod(pod, limits);
    if (end !== null || condition === undefined) return end;
    return stopped(`its pod was taken away (${condition.message ?? condition.reason})`);
  }

  async readLog(id: string, cursor: string | null, signal: AbortSignal) {
    const pod = await this.#pod(id, signal);
    const [inBuild = "", inPush = "", inCache = ""] = (cursor ?? "").split("|");
    const waiting = await this.#waitingLines(id, pod, signal);
    if (pod === undefined) return { lines: waiting, cursor };
    // Everything is read again, so the steps are new too.
    if (cursor === null) this.#progress.delete(id);
    const reader = this.#reader(id);
    const [cache, build, push] = [
      await this.#linesOf(pod, cacheContainer, inCache),
      await this.#linesOf(pod, buildContainer, inBuild),
      await this.#linesOf(pod, pushContainer, inPush),
    ];
    const built = build.lines.flatMap((line) => reader.read(line) ?? []);
    const lines = [...waiting, ...cache.lines, ...built, ...push.lines];
    return { lines, cursor: `${build.cursor}|${push.cursor}|${cache.cursor}` };
  }

  async remove(id: string, signal: AbortSignal): Promise<void> {
    this.#progress.delete(id);
    const key = { namespace: this.#policy.namespace, name: buildName(id) };
    await this.#api.remove("Job", key, {}, signal);
    await this.#api.remove("Secret", key, {}, signal);
  }

  async list(listenerId: string, signal: AbortSignal): Promise<string[]> {
    const labelSelector = `${buildLabel},${listenerLabel}=${listenerId}`;
    const { items } = await this.#api.list<JobView>("Job", this.#policy.namespace, { labelSelector }, signal);
    return items.flatMap(({ metadata }) => metadata.labels?.[buildLabel] ?? []);
  }

  async startRemoval(removal: ImageRemoval, listenerId: string, signal: AbortSignal): Promise<void> {
    await this.#api.create(renderRemovalJob(removal, this.#policy, listenerId), signal);
  }

  async inspectRemoval(removal: ImageRemoval, signal: AbortSignal): Promise<ImageRemovalEnd | null> {
    const { removal_id: id } = removal;
    const job = await this.#api.get<JobView>("Job", this.#policy.namespace, buildName(id), signal);
    const pod = await this.#pod(id, signal);
    const end = pod === undefined ? null : endOfRemoval(pod, removal);
    if (end !== null) return end;
    const condition = job?.status?.conditions?.find(({ type, status }) => type === "Failed" && status === "True");
    if (job !== null && condition === undefined) return null;
    const message = job === null ? "its Job was deleted in the cluster" : (condition?.message ?? "its Job failed");
    return { removal_id: id, removed: [], message };
  }

  /** Returns why the pod does not start yet, with the same key in each read. */
  async #waitingLines(id: string, pod: BuildPod | undefined, signal: AbortSignal): Promise<BuildLogLine[]> {
    const { namespace } = this.#policy;
    const line = { timestamp: new Date().toISOString(), stream: "pierhead", level: "WARNING" } as const;
    if (pod !== undefined) {
      const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
      if (scheduled?.status !== "False") return [];
      const message = `The build waits for a node with room: ${scheduled.message ?? scheduled.reason}`;
      return [{ ...line, key: `${id}/no-room`, message }];
    }
    const job = await this.#api.get<JobView>("Job", namespace, buildName(id), signal);
    if (job === null || Date.now() - Date.parse(job.metadata.creationTimestamp) < podDueMs) return [];
    const message = `The cluster creates no pod for the build. A quota or the Pod Security level of the namespace may forbid it: kubectl -n ${namespace} describe job ${buildName(id)}`;
    return [{ ...line, key: `${id}/no-pod`, message }];
  }

  #reader(id: string): BuildProgressReader {
    const reader = this.#progress.get(id) ?? new BuildProgressReader();
    this.#progress.set(id, reader);
    return reader;
  }

  async #pod(id: string, signal: AbortSignal): Promise<BuildPod | undefined> {
    const query = { labelSelector: `${buildLabel}=${id}` };
    return (await this.#api.list<BuildPod>("Pod", this.#policy.namespace, query, signal)).items[0];
  }

  async #linesOf(pod: BuildPod, container: string, cursor: string) {
    const statuses = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])];
    const { state } = statuses.find(({ name }) => name === container) ?? {};
    // Until a container has run, the API server refuses to read its log.
    if (state?.running === undefined && state?.terminated === undefined) return { lines: [], cursor };
    const key = { namespace: this.#policy.namespace, name: pod.metadata.name, container };
    try {
      const read = await readPodLog(this.#api, key, cursor, logBytesMax);
      const lines = read.lines.map((line): BuildLogLine => {
        return { ...line, key: `${container}/${line.key}`, timestamp: line.timestamp.toISOString(), stream: "stdout" };
      });
      return { lines, cursor: read.cursor };
    } catch (error) {
      if (error instanceof KubeError && error.status < 500) return { lines: [], cursor };
      throw error;
    }
  }
}
