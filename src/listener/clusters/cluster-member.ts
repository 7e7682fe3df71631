import type { RoutedBy } from "../../compute/cluster.ts";
import type { Assignment, Cause, RevisionRun } from "../../contract/listeners/assignment.ts";
import type { FleetContext } from "../fleet.ts";
import { Drift } from "./drift.ts";
import { ObservedReplicas } from "./observed-replicas.ts";
import type { SleepState } from "./sleep.ts";

/** The state of one deployment. All of it may be lost: the assignment and the cluster are enough to continue. */
export interface Member {
  readonly deploymentId: string;
  /** Null: the control plane does not know it, so its objects are removed from the cluster. */
  assignment: Assignment | null;
  /** `<revision>/<generation>` that was applied last. Null: not applied yet, or drifted since. */
  applied: string | null;
  appliedAtMs: number;
  /** The target that was given up. */
  failed: { revisionId: string; cause: Cause } | null;
  /** When the rollout of the present target began, and since when each problem exists. */
  sinceMs: number;
  problems: Map<string, number>;
  isReady: boolean;
  isAsleep: boolean;
  /** The idle time begins here or at the last request, whichever is later. */
  activeSinceMs: number;
  routedBy: RoutedBy;
  /** The deployment serves, but something that it needs to start is gone. */
  isBroken: boolean;
  failures: number;
  readonly drift: Drift;
  readonly replicas: ObservedReplicas;
  isRunning: boolean;
  isPassPending: boolean;
  cancelWake: () => void;
}

/** Returns the state of a deployment about which nothing is known yet. */
export function newMember(deploymentId: string, { clock, logger }: Pick<FleetContext, "clock" | "logger">): Member {
  return {
    ...{ deploymentId, assignment: null, applied: null, appliedAtMs: 0, failed: null },
    ...{ sinceMs: clock.monotonicMs(), problems: new Map(), activeSinceMs: clock.monotonicMs() },
    ...{ isReady: false, isAsleep: false, routedBy: "own" as const, isBroken: false, failures: 0 },
    ...{ drift: new Drift(logger, deploymentId), replicas: new ObservedReplicas() },
    ...{ isRunning: false, isPassPending: false, cancelWake: () => {} },
  };
}

/** Forgets what was known about the target before. */
export function beginTarget(member: Member, nowMs: number): void {
  member.sinceMs = nowMs;
  member.problems.clear();
  member.failed = null;
  member.isReady = false;
  member.failures = 0;
  member.replicas.updateStreak(0);
}

/** Records whether a deployment sleeps, and that it was active if it does not. */
export function recordSleep(member: Member, { isUp, isAsleep, endsSleep }: SleepState, nowMs: number): void {
  if (endsSleep || !isUp) member.activeSinceMs = nowMs;
  member.isAsleep = isAsleep;
  member.isReady = isUp || isAsleep;
}

/** Returns what names the objects of a deployment in the cluster. */
export const keyOf = ({ deploymentId }: Member, { slug }: Assignment, { cluster }: RevisionRun) => ({
  ...{ deploymentId, slug, namespace: cluster?.namespace ?? null },
});

/** Returns the revision to run: the target, or the serving revision if the target was given up. */
export function goalOf({ failed }: Member, { target, serving }: Assignment): RevisionRun | null {
  return target === null || failed?.revisionId === target.revision_id ? serving : target;
}
