import type { Cause, ReplicaExitReport } from "../../../contract/listeners/assignment.ts";
import { revisionAnnotation } from "../render/names.ts";
import type { PodView, Termination } from "./rollout.ts";

/** Returns the newest exit of a container or pod of a revision; undefined: none is known. Pods that are being deleted do not count. */
export function lastExitOf(pods: PodView[], revisionId: string): ReplicaExitReport | undefined {
  return pods
    .filter(({ metadata }) => metadata.annotations?.[revisionAnnotation] === revisionId)
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .flatMap((pod) => [...exitsOfContainers(pod, revisionId), ...evictionOf(pod, revisionId)])
    .toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at))[0];
}

function exitsOfContainers({ metadata, status }: PodView, revisionId: string): ReplicaExitReport[] {
  return (status.containerStatuses ?? []).flatMap(({ name, state, lastState, restartCount }) => {
    const ended = state?.terminated ?? lastState?.terminated;
    if (ended?.finishedAt == null) return [];
    const restarts = state?.terminated === undefined ? restartCount : restartCount + 1;
    return [
      {
        id: `${metadata.name}/${name}/${restarts}`,
        replica_id: metadata.name,
        revision_id: revisionId,
        at: ended.finishedAt,
        restarts,
        cause: causeOfExit(name, ended),
      },
    ];
  });
}

function causeOfExit(container: string, { exitCode, reason, signal, message }: Termination): Cause {
  const isOutOfMemory = reason === "OOMKilled";
  const what = isOutOfMemory
    ? `The container '${container}' was killed because it used more memory than its limit. Raise the limit in resource_spec.`
    : `The container '${container}' ended with exit code ${exitCode}. ${message ?? ""}`.trim();
  return {
    reason: isOutOfMemory ? "OutOfMemory" : "Exited",
    message: what,
    exit_code: exitCode,
    signal: signal ? String(signal) : null,
    last_lines: [],
  };
}

/** A node evicts pods when it runs out of memory or disk. The cluster then starts others. */
function evictionOf({ metadata, status }: PodView, revisionId: string): ReplicaExitReport[] {
  if (status.phase !== "Failed" || status.reason !== "Evicted") return [];
  const at = status.conditions?.find(({ type }) => type === "DisruptionTarget")?.lastTransitionTime ?? status.startTime;
  if (at === undefined) return [];
  const cause: Cause = {
    reason: "Evicted",
    message: `The node removed the pod ${metadata.name}. ${status.message ?? ""}`.trim(),
    exit_code: null,
    signal: null,
    last_lines: [],
  };
  return [
    { id: `${metadata.name}/evicted`, replica_id: metadata.name, revision_id: revisionId, at, restarts: 1, cause },
  ];
}
