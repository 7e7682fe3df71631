import type { ReplicaExit, ReplicaState } from "./compute.ts";

/** What a driver recorded before the start. `startedAt`: ISO 8601. */
type Kept = Pick<ReplicaState, "replicaId" | "deploymentId" | "revisionId" | "limits"> & { startedAt: string };

interface Seen {
  phase: ReplicaState["phase"];
  /** Address at which it became ready. */
  at: ReplicaState["address"] | undefined;
  version: string | null | undefined;
  exit: ReplicaExit | undefined;
}

/** Builds the state that a driver reports. It has an address only while the replica answers. */
export function replicaState(kept: Kept, { phase, at, version, exit }: Seen): ReplicaState {
  const { replicaId, deploymentId, revisionId, startedAt, limits } = kept;
  const answers = phase === "ready" || phase === "stopping";
  return {
    replicaId,
    deploymentId,
    revisionId,
    phase,
    startedAt: new Date(startedAt),
    limits,
    ...(answers && at !== undefined ? { address: at } : {}),
    ...(answers && version != null ? { serverVersion: version } : {}),
    ...(exit === undefined ? {} : { exit }),
  };
}
