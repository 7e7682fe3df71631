import type { Cause } from "../../../contract/listeners/assignment.ts";

/** The fields of a pod that show an eviction. */
interface Pod {
  metadata: { name: string };
  status: {
    phase?: string;
    reason?: string;
    message?: string;
    startTime?: string;
    conditions?: { type: string; lastTransitionTime?: string }[];
    containerStatuses?: { state?: { terminated?: { finishedAt?: string | null } } }[];
  };
}

/**
 * Matches the kubelet's message about a pod, a container or a volume that wrote more than its limit. Its message about a node without
 * room is that the node was low on a resource. Source: pkg/kubelet/eviction of Kubernetes 1.34.
 */
const overDiskLimit = /ephemeral.* exceed(?:s|ed)|exceeded its local ephemeral|EmptyDir volume .* exceeds/i;

/** Returns whether its node evicted a pod. The cluster starts another pod. */
export const isEvicted = ({ status }: Pod) => status.phase === "Failed" && status.reason === "Evicted";

/** Returns when a pod was evicted. The kubelet writes the condition only when its node lacks room. */
export function evictedAt({ status }: Pod): string | undefined {
  const disrupted = status.conditions?.find(({ type }) => type === "DisruptionTarget")?.lastTransitionTime;
  const ended = (status.containerStatuses ?? []).flatMap(({ state }) => state?.terminated?.finishedAt ?? []);
  return disrupted ?? ended.toSorted().at(-1) ?? status.startTime;
}

export const causeOfEviction = ({ metadata, status }: Pod): Cause => ({
  reason: overDiskLimit.test(status.message ?? "") ? "OutOfDisk" : "Evicted",
  message: `The node removed the pod ${metadata.name}. ${status.message ?? ""}`.trim(),
  exit_code: null,
  signal: null,
  last_lines: [],
});
