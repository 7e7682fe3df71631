import { type BuildEnd, contextUnread } from "../../../contract/listeners/build-order.ts";
import type { ImageRemoval, ImageRemovalEnd } from "../../../contract/listeners/image-removal.ts";
import { buildContainer, builderFailedCode, pushContainer, removeContainer } from "./render-build.ts";

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
}

interface ContainerStatus {
  name: string;
  state?: {
    waiting?: { reason?: string; message?: string };
    running?: object;
    terminated?: { exitCode: number; reason?: string; message?: string };
  };
}

/** The pod of a build, as far as its end is read from it. */
export interface BuildPod {
  metadata: { name: string; deletionTimestamp?: string };
  status?: {
    phase?: string;
    reason?: string;
    message?: string;
    conditions?: Condition[];
    initContainerStatuses?: ContainerStatus[];
    containerStatuses?: ContainerStatus[];
  };
}

/** Returns how the build of a pod ended; null: it is running. @param failure returns why the image could not be built. */
export function endOfPod(
  pod: BuildPod,
  { memoryMib, failure }: { memoryMib: number; failure: () => string },
): BuildEnd | null {
  const { status = {} } = pod;
  const containers = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  const [build, push] = [buildContainer, pushContainer].map((name) => containers.find((one) => one.name === name));
  const early = containers.map(cannotStart).find((end) => end !== null) ?? eviction(pod);
  if (early !== null) return early;
  const built = build?.state?.terminated;
  if (built !== undefined && built.exitCode !== 0) {
    if (built.reason === "OOMKilled")
      return failed("BuildFailed", `The build needed more than the ${memoryMib} MiB a build may use.`);
    if (built.exitCode === builderFailedCode)
      return failed("BuilderFailed", "BuildKit does not start in this cluster. The build log shows why.");
    const message = failure();
    return disruption(pod) ?? failed(message.startsWith(contextUnread) ? "BuilderFailed" : "BuildFailed", message);
  }
  const pushed = push?.state?.terminated;
  // A node that refuses the pod leaves no state of its containers, and a failure before the build none of the push.
  if (pushed === undefined)
    return status.phase === "Failed" ? stopped(status.message ?? status.reason ?? "its pod failed") : null;
  const { image, message } = readTermination(pushed.message);
  if (image !== undefined) return { image, reason: null, message: "" };
  if (message !== undefined) return failed("BuilderFailed", message);
  return disruption(pod) ?? failed("BuilderFailed", `The push ended with exit code ${pushed.exitCode}.`);
}

/** Returns how a removal of images ended; null: it is running, or its pod does not say. */
export function endOfRemoval({ status = {} }: BuildPod, removal: ImageRemoval): ImageRemovalEnd | null {
  const ended = status.containerStatuses?.find(({ name }) => name === removeContainer)?.state?.terminated;
  if (ended === undefined) return null;
  const { removed = [], message } = readTermination(ended.message);
  if (message === undefined)
    return {
      removal_id: removal.removal_id,
      removed: [],
      message: `its program ended with exit code ${ended.exitCode}`,
    };
  return {
    removal_id: removal.removal_id,
    removed: removed.flatMap((position) => removal.references[position] ?? []),
    message,
  };
}

function cannotStart(container: ContainerStatus): BuildEnd | null {
  const { waiting } = container.state ?? {};
  if (waiting?.reason === undefined || !hopeless.has(waiting.reason)) return null;
  const what = `The ${container.name} container cannot start (${waiting.reason})`;
  const message = `${what}: ${waiting.message ?? ""} Check the images and Secrets of builds in the chart.`;
  return failed("BuilderFailed", message);
}

function eviction({ status = {} }: BuildPod): BuildEnd | null {
  if (status.phase !== "Failed" || status.reason !== "Evicted") return null;
  const why = status.message ?? "it used too much disk";
  return /resource: (memory|pids)/.test(why)
    ? stopped(why)
    : failed("DiskFull", `The cluster stopped the build: ${why}`);
}

/** Returns the end of a build whose pod the cluster takes away, for example because its node is drained. */
function disruption({ metadata, status }: BuildPod): BuildEnd | null {
  const condition = status?.conditions?.find((one) => one.type === "DisruptionTarget" && one.status === "True");
  if (condition === undefined && metadata.deletionTimestamp === undefined) return null;
  return stopped(condition?.message ?? "its pod was deleted");
}

/** Reasons of the kubelet that waiting does not change. A missing Secret is not one: it is created after the Job. */
const hopeless = new Set(["ErrImageNeverPull", "InvalidImageName", "ImagePullBackOff", "CreateContainerError"]);

export const failed = (reason: NonNullable<BuildEnd["reason"]>, message: string): BuildEnd => ({
  image: null,
  reason,
  message: message.slice(0, 16_000),
});

/** Returns the end of a build that the cluster stopped through no fault of the project. */
export const stopped = (why: string): BuildEnd =>
  failed("BuilderFailed", `The cluster stopped the build: ${why.replace(/\.$/, "")}. Deploy again.`);

function readTermination(text = ""): { image?: string; message?: string; removed?: number[] } {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
