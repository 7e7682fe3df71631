import { nothingToCancel } from "../../base/clock.ts";
import type { Assignment } from "../../contract/listeners/assignment.ts";
import type { Route } from "../../gateway/route.ts";
import {
  emptyMemory,
  type Facts,
  type Memory,
  type Preparation,
  type QueueReading,
  type RunCount,
} from "./plan-state.ts";

/** One deployment of this fleet. */
export interface Member {
  readonly deploymentId: string;
  /** Null: the control plane does not know it. */
  assignment: Assignment | null;
  memory: Memory;
  route: Route | null;
  preparation: Preparation | null;
  state: Facts["state"];
  drains: Map<string, AbortController> | null;
  /** Answers about runs in progress, by replica. Null: no handover has asked. */
  runs: Map<string, RunCount> | null;
  /** What its queue held last. Null: it was not asked. */
  queue: QueueReading | null;
  cancelWake: () => void;
}

export const newMember = (deploymentId: string): Member => ({
  deploymentId,
  assignment: null,
  memory: emptyMemory,
  route: null,
  preparation: null,
  state: "present",
  drains: null,
  runs: null,
  queue: null,
  cancelWake: nothingToCancel,
});

/** Cancels what a member waits for. */
export function cancelTimers(member: Member): void {
  member.cancelWake();
  for (const drain of member.drains?.values() ?? []) drain.abort();
}
