import type { ReplicaExit, ReplicaState } from "./compute.ts";

/** What a driver keeps of a replica from before its start. `startedAt`: ISO 8601. */
type Kept = Pick<ReplicaState, "replicaId" | "deploymentId" | "revisionId" | "limits"> & { startedAt: string };

interface Seen {
  phase: ReplicaState["phase"];
  /** Where it answered when it became ready. */
  at: ReplicaState["address"] | undefined;
  version: string | null | undefined;
  exit: ReplicaExit | undefined;
}

/** What a driver tells of a replica: an address only while somebody answers there. */
export function replicaState(kept: Kept, { phase, at, version, exit }: Seen): ReplicaState {
  const { replicaId, deploymentId, revisionId, startedAt, limits } = kept;
  const answers = phase === "ready" || phase === "stopping";
  return {
    ...{ replicaId, deploymentId, revisionId, phase, startedAt: new Date(startedAt), limits },
    ...(answers && at !== undefined ? { address: at } : {}),
    ...(answers && version != null ? { serverVersion: version } : {}),
    ...(exit === undefined ? {} : { exit }),
  };
}
