import type { Cause, ReplicaExitReport, ReplicaReport } from "../contract/listeners/assignment.ts";
import type { ReplicaLoad, ReplicaLogs } from "./compute.ts";
import type { Workload } from "./kubernetes/workload.ts";

export type { Workload } from "./kubernetes/workload.ts";

/** Key of one deployment in a cluster. All object names derive from the slug. */
export interface ClusterKey {
  deploymentId: string;
  slug: string;
  /** null: the listener's default namespace. */
  namespace: string | null;
}

/** A reason why a rollout does not complete, and whether waiting may help. `wait`: it has not failed, only not completed. */
export interface RolloutProblem {
  weight: "now" | "grace" | "deadline" | "wait";
  cause: Cause;
  /** Since when, by the cluster's clock; absent: the cluster does not say. */
  since?: string | undefined;
}

export interface ClusterStatus {
  /** Revision of the pods that start or serve; null: nothing has been applied yet. */
  revisionId: string | null;
  /** All replicas of that revision are ready and have stayed so for a while, and no replica of another revision is left. */
  isReady: boolean;
  /**
   * As `isReady`, but the replicas may have become ready just now, so requests may not reach them yet. Absent: as
   * `isReady`.
   */
  isStarted?: boolean;
  /** asleep: it has no replicas until a request wakes it. waking: it was woken, and that is not recorded yet. Absent: neither. */
  sleep?: "asleep" | "waking" | null;
  /**
   * Exits in a row of a replica of that revision, each soon after its start; null: one has started again, and it is not known
   * yet whether it stays. Absent: 0.
   */
  crashStreak?: number | null;
  /** The newest exit of a replica of that revision. Absent: none is known. */
  lastExit?: ReplicaExitReport | undefined;
  /** Most serious first. */
  problems: RolloutProblem[];
  replicas: (ReplicaReport & { deployment_id: string })[];
}

/** A deployment of ours that exists in the cluster. */
export interface ClusterDeployment {
  deploymentId: string;
  namespace: string;
  slug: string;
  /** Listener that created it; null: an earlier version created it and did not record a listener. */
  listenerId: string | null;
}

/**
 * Whose routes lead to a deployment. gateway: only those of the gateway in the cluster. both: also its own, until the gateway serves
 * it. own: its own, or it is not known.
 */
export type RoutedBy = "gateway" | "both" | "own";

/**
 * Runs whole deployments on an engine that replaces replicas itself. A listener only sets the desired revision: the
 * engine starts, drains and restarts replicas, and does that better than a client of its API could.
 */
export interface ClusterCompute extends ReplicaLogs {
  readonly type: "kubernetes";
  /** Returns what the control plane should know about this cluster. */
  facts(): { capabilities: string[]; engine_version: string };
  /**
   * Makes the cluster run this workload. Repeating the call changes nothing.
   * @returns `waitingFor`: what must be ready first; null: everything is applied. `held`: changes by hand that an
   * annotation tells us to leave alone. `routedBy`: whose routes lead to it, by default its own.
   * @throws UnusableWorkload with a message for the user; Superseded when a newer session or generation was applied before.
   */
  apply(
    workload: Workload,
    signal: AbortSignal,
  ): Promise<{ waitingFor: string | null; held: string[] | null; routedBy?: RoutedBy }>;
  inspect(key: ClusterKey, signal: AbortSignal): Promise<ClusterStatus>;
  /**
   * Returns whether requests reach the ready replicas of a deployment, after waiting a moment for it. False also when this
   * cannot be known.
   */
  isReached(key: ClusterKey & { healthPath: string }, signal: AbortSignal): Promise<boolean>;
  /**
   * Stops the pods of a deployment of which no revision serves, because the first one failed. Its database stays. The next
   * `apply` starts it again. Does nothing when a newer session or generation was applied before.
   */
  stop(key: ClusterKey & { epoch: number; generation: number }, signal: AbortSignal): Promise<void>;
  /** Puts a deployment to sleep, or wakes it. A second call after it has started records that it is awake. */
  setAsleep(key: ClusterKey, isAsleep: boolean, signal: AbortSignal): Promise<void>;
  /**
   * Deletes a deployment, one step per call, and treats its data as the operator's data policy says.
   * @returns `because`: what blocks the deletion, when a person may have to act.
   * @throws Error when the deployment was not found but may still exist where this listener cannot look.
   */
  remove(key: Omit<ClusterKey, "slug">, signal: AbortSignal): Promise<{ isGone: boolean; because: string | null }>;
  list(signal: AbortSignal): Promise<ClusterDeployment[]>;
  /** Returns the resource usage of the replicas as the engine measures it; null: the engine measures nothing. */
  readLoads(signal: AbortSignal): Promise<ReplicaLoad[] | null>;
  /** Registers a callback. `isDrift`: another client has changed or deleted one of our objects. */
  onChange(changed: (deploymentId: string, isDrift: boolean) => void): void;
  close(): Promise<void>;
}
