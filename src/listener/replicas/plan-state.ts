import type { ReplicaState } from "../../compute/compute.ts";
import type { Assignment, Cause } from "../../contract/listeners/assignment.ts";
import type { Scale } from "../../domain/scaling.ts";

/** One replica as the plan sees it: what the driver showed, and what the listener is doing to it. */
export interface ReplicaFacts extends Omit<ReplicaState, "startedAt" | "deploymentId"> {
  /** Null while its start waits for secrets or for a free place. */
  startedAtMs: number | null;
  /** Its removal has begun and goes on until it is gone; nothing else may be done to it. */
  isBeingRemoved: boolean;
  /** Requests and streams under way to it. */
  inFlight: number;
}

/** Everything a pass looks at. */
export interface Facts {
  deploymentId: string;
  /** Null: the control plane does not know this deployment, and what runs of it is an orphan. */
  assignment: Assignment | null;
  replicas: ReplicaFacts[];
  lastRequestAtMs: number | null;
  /** What must be there before a handover may interrupt the serving revision; null: not asked for yet. */
  preparation: Preparation | null;
  /** Local state of a deleted deployment. */
  state: "present" | "beingRemoved" | "removed";
}

export interface Preparation {
  revisionId: string;
  phase: "running" | "done" | "failed";
  /** Why it failed. */
  message: string;
}

/** How often and why a revision that had proven itself exited since it last held for `healthyMs`. */
export interface Crashes {
  count: number;
  streak: number;
  lastAtMs: number;
  retryAtMs: number;
  cause: Cause;
}

/**
 * What a pass hands to the next one. All of it may be lost: a listener that was restarted finds its way from the
 * assignment and the replicas alone, and only forgets how often something failed.
 */
export interface Memory {
  /** Carries the traffic, or did last. Null: none has yet. Undefined: to be found out from the replicas. */
  currentRevisionId: string | null | undefined;
  /** The target was given up. */
  failed: { revisionId: string; cause: Cause } | null;
  /** How the start of an unproven target goes. */
  bringUp: { revisionId: string; sinceMs: number; attempts: number; retryAtMs: number; cause: Cause | null } | null;
  crashes: Readonly<Record<string, Crashes>>;
  /** Ready replicas that get no new requests and end when theirs have ended; since when. */
  draining: Readonly<Record<string, number>>;
  /** New requests wait for a handover. */
  heldSinceMs: number | null;
  /** No replica of the current revision is ready. */
  downSinceMs: number | null;
  /** By the load; null: nobody has looked at it yet. */
  scale: Scale | null;
  isAsleep: boolean;
  /** A request asked for a sleeping deployment and none has been ready since. */
  wakingSinceMs: number | null;
  /** The idle window begins here or at the last request, whichever is later. */
  activeSinceMs: number | null;
  /** The number in the newest replica id. */
  lastNumber: number;
}

export const emptyMemory: Memory = {
  currentRevisionId: undefined,
  failed: null,
  bringUp: null,
  crashes: {},
  draining: {},
  heldSinceMs: null,
  downSinceMs: null,
  scale: null,
  isAsleep: false,
  wakingSinceMs: null,
  activeSinceMs: null,
  lastNumber: 0,
};

/** What is remembered once a request has asked for a sleeping deployment. */
export function wake(memory: Memory, nowMs: number): Memory {
  if (!memory.isAsleep) return memory;
  return { ...memory, isAsleep: false, wakingSinceMs: nowMs, activeSinceMs: nowMs, downSinceMs: null };
}
