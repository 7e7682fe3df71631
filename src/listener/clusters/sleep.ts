import type { ClusterStatus } from "../../compute/cluster.ts";
import type { Assignment, RevisionRun } from "../../contract/listeners/assignment.ts";
import { mayEverSleep } from "./cluster-report.ts";
import type { Activity } from "./gateway-traffic.ts";

/** Poll interval while a deployment is in use, or its use is not known. */
const recheckMs = 15_000;

/** Whether the revision that serves may sleep now. Only a gateway that sees all requests can tell, and wake it. */
export const maySleep = (assignment: Assignment, goal: RevisionRun, hasAgentGateway: boolean): boolean =>
  hasAgentGateway &&
  assignment.idle_after_ms != null &&
  goal.revision_id === assignment.serving?.revision_id &&
  mayEverSleep(goal);

export interface SleepState {
  isUp: boolean;
  isAsleep: boolean;
  endsSleep: boolean;
}

/** Returns whether a revision runs or sleeps, and whether its sleep ends: a new revision has to show that it runs. */
export function sleepStateOf(
  { isReady, sleep }: Pick<ClusterStatus, "isReady" | "sleep">,
  isCurrent: boolean,
  mayStayAsleep: boolean,
): SleepState {
  const isUp = isCurrent && isReady;
  const isAsleep = isCurrent && mayStayAsleep && sleep === "asleep";
  return { isUp, isAsleep, endsSleep: sleep === "waking" ? isUp : sleep === "asleep" && !isAsleep };
}

/**
 * Returns the time until a deployment may go to sleep, in milliseconds; 0: now.
 * @param activity null: a replica of the gateway does not answer, so it may be in use
 */
export function untilSleepMs(
  activity: Activity | null,
  { idleAfterMs, activeSinceMs, nowMs }: { idleAfterMs: number; activeSinceMs: number; nowMs: number },
): number {
  if (activity === null || activity.isBusy) return recheckMs;
  return Math.max(0, Math.max(activeSinceMs, activity.lastRequestAtMs ?? 0) + idleAfterMs - nowMs);
}
