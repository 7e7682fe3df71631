import type { Cause, ReplicaReport } from "../contract/listeners/assignment.ts";
import type { ReplicaLoad, ReplicaLogs } from "./compute.ts";
import type { Workload } from "./kubernetes/workload.ts";

export type { Workload } from "./kubernetes/workload.ts";

/** Which deployment; its names come from the slug. */
export interface ClusterKey {
  deploymentId: string;
  slug: string;
  /** null: the listener's own. */
  namespace: string | null;
}

/** Why a rollout does not end, and whether waiting may help. */
export interface RolloutProblem {
  weight: "now" | "grace" | "deadline";
  cause: Cause;
}

export interface ClusterStatus {
  /** Of the pods that are being brought up or serve; null: nothing was applied yet. */
  revisionId: string | null;
  /** Every replica of that revision is there and no other one is left. */
  isReady: boolean;
  /** The gravest first. */
  problems: RolloutProblem[];
  replicas: (ReplicaReport & { deployment_id: string })[];
}

/** What is in the cluster of ours. */
export interface ClusterDeployment {
  deploymentId: string;
  namespace: string;
  slug: string;
  /** Who made it; null: an earlier version, which did not say so. */
  listenerId: string | null;
}

/**
 * Runs whole deployments on an engine that replaces replicas by itself. A listener only says which revision it should
 * be: starting, draining and restarting are the engine's work, which it does better than we could from outside.
 */
export interface ClusterCompute extends ReplicaLogs {
  readonly type: "kubernetes";
  /** What the control plane should know of this cluster. */
  facts(): { capabilities: string[]; engine_version: string };
  /**
   * Makes the cluster run this; again changes nothing.
   * @returns `waitingFor`: what must be there first; null: everything is applied. `held`: what somebody has changed and
   * asked us to leave so.
   * @throws UnusableWorkload in words for the user; Superseded when a newer session or generation was here.
   */
  apply(workload: Workload, signal: AbortSignal): Promise<{ waitingFor: string | null; held: string[] | null }>;
  inspect(key: ClusterKey, signal: AbortSignal): Promise<ClusterStatus>;
  /**
   * Deletes a deployment, a step each call, and does with its data as the operator of the cluster wants.
   * @returns `because`: what keeps it, when it may take a person to go on.
   * @throws Error when it is nowhere to be seen and may still be there.
   */
  remove(key: Omit<ClusterKey, "slug">, signal: AbortSignal): Promise<{ isGone: boolean; because: string | null }>;
  list(signal: AbortSignal): Promise<ClusterDeployment[]>;
  /** What the replicas use that the engine has measured; null: it measures nothing. */
  readLoads(signal: AbortSignal): Promise<ReplicaLoad[] | null>;
  /** `isDrift`: somebody else has changed or removed an object of ours. */
  onChange(changed: (deploymentId: string, isDrift: boolean) => void): void;
  close(): Promise<void>;
}

export const isCluster = (compute: { type: string }): compute is ClusterCompute => compute.type === "kubernetes";
