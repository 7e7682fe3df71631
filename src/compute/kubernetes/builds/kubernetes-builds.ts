import path from "node:path";
import { fileURLToPath } from "node:url";
import type { BuildEnd, BuildLogLine } from "../../../contract/listeners/build-order.ts";
import type { ImageBuild, ImageBuilds } from "../../image-builds.ts";
import { type ApiServer, KubeError } from "../api/api-server.ts";
import type { LiveObject } from "../api/manifest.ts";
import { listenerLabel } from "../render/names.ts";
import { readPodLog } from "../watch/pod-logs.ts";
import { BuildProgressReader } from "./progress.ts";
import {
  type BuildPolicy,
  buildContainer,
  builderFailedCode,
  buildLabel,
  buildName,
  pushContainer,
  renderBuildJob,
  renderBuildSecret,
} from "./render-build.ts";

interface JobView extends LiveObject {
  status?: { conditions?: { type: string; status: string; reason?: string; message?: string }[] };
}

interface ContainerStatus {
  name: string;
  state?: {
    waiting?: { reason?: string; message?: string };
    running?: object;
    terminated?: { exitCode: number; reason?: string; message?: string };
  };
}

interface BuildPod {
  metadata: { name: string };
  status?: {
    phase?: string;
    reason?: string;
    message?: string;
    initContainerStatuses?: ContainerStatus[];
    containerStatuses?: ContainerStatus[];
  };
}

const logBytesMax = 1024 * 1024;

/** The program that pushes. It is at the same path in every container of Pierhead's image. */
export const pushProgram = fileURLToPath(new URL(`./push-image${path.extname(import.meta.url)}`, import.meta.url));

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
    const condition = job.status?.conditions?.find(({ type, status }) => type === "Failed" && status === "True");
    if (condition?.reason === "DeadlineExceeded")
      return failed("Timeout", "The build did not end in time and was stopped.");
    if (pod !== undefined) return this.#endOf(id, pod);
    return condition === undefined ? null : failed("BuilderFailed", `The Job failed: ${condition.message ?? ""}`);
  }

  async readLog(id: string, cursor: string | null, signal: AbortSignal) {
    const pod = await this.#pod(id, signal);
    const [inBuild = "", inPush = ""] = (cursor ?? "").split("|");
    if (pod === undefined) return { lines: [], cursor };
    const reader = this.#reader(id);
    const [build, push] = [
      await this.#linesOf(pod, buildContainer, inBuild),
      await this.#linesOf(pod, pushContainer, inPush),
    ];
    const lines = [...build.lines.flatMap((line) => reader.read(line) ?? []), ...push.lines];
    return { lines, cursor: `${build.cursor}|${push.cursor}` };
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

  #endOf(id: string, { status = {} }: BuildPod): BuildEnd | null {
    const [build, push] = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
    for (const one of [build, push]) {
      const { waiting } = one?.state ?? {};
      if (waiting?.reason !== undefined && hopeless.has(waiting.reason)) {
        const what = `The ${one?.name} container cannot start (${waiting.reason})`;
        return failed(
          "BuilderFailed",
          `${what}: ${waiting.message ?? ""} Check the images and Secrets of builds in the chart.`,
        );
      }
    }
    if (status.phase === "Failed" && status.reason === "Evicted")
      return failed("DiskFull", `The cluster stopped the build: ${status.message ?? "it used too much disk"}`);
    const built = build?.state?.terminated;
    if (built !== undefined && built.exitCode !== 0) {
      if (built.reason === "OOMKilled")
        return failed("BuildFailed", `The build needed more than the ${this.#policy.memoryMib} MiB a build may use.`);
      if (built.exitCode === builderFailedCode)
        return failed("BuilderFailed", "BuildKit does not start in this cluster. The build log shows why.");
      return failed("BuildFailed", this.#reader(id).failure());
    }
    const pushed = push?.state?.terminated;
    if (pushed === undefined) return null;
    const { image, message } = readTermination(pushed.message);
    if (image !== undefined) return { image, reason: null, message: "" };
    return failed("BuilderFailed", message ?? `The push ended with exit code ${pushed.exitCode}.`);
  }
}

/** Reasons of the kubelet that waiting does not change. A missing Secret is not one: it is created after the Job. */
const hopeless = new Set(["ErrImageNeverPull", "InvalidImageName", "ImagePullBackOff", "CreateContainerError"]);

const failed = (reason: NonNullable<BuildEnd["reason"]>, message: string): BuildEnd => ({
  image: null,
  reason,
  message: message.slice(0, 16_000),
});

function readTermination(text = ""): { image?: string; message?: string } {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
