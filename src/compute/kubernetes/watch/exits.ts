import type { Cause, ReplicaExitReport } from "../../../contract/listeners/assignment.ts";
import { revisionAnnotation } from "../render/names.ts";
import { causeOfEviction, evictedAt, isEvicted } from "./evictions.ts";
import type { PodView, Termination } from "./rollout.ts";

/** Returns the newest exit of a container or pod of a revision; undefined: none is known. Pods that are being deleted do not count. */
export function lastExitOf(pods: PodView[], revisionId: string): ReplicaExitReport | undefined {
  return pods
    .filter(({ metadata }) => metadata.annotations?.[revisionAnnotation] === revisionId)
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .flatMap((pod) => (isEvicted(pod) ? evictionOf(pod, revisionId) : exitsOfContainers(pod, revisionId)))
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

function evictionOf(pod: PodView, revisionId: string): ReplicaExitReport[] {
  const at = evictedAt(pod);
  if (at === undefined) return [];
  const { name } = pod.metadata;
  const cause = causeOfEviction(pod);
  return [{ id: `${name}/evicted`, replica_id: name, revision_id: revisionId, at, restarts: 1, cause }];
}
