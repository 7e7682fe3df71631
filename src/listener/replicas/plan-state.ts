import type { ReplicaState } from "../../compute/compute.ts";
import type { Assignment, Cause } from "../../contract/listeners/assignment.ts";
import type { Scale } from "../../domain/scaling.ts";

/** One replica as the planner sees it: the driver's observation and the listener's operation on it. */
export interface ReplicaFacts extends Omit<ReplicaState, "startedAt" | "deploymentId"> {
  /** Null while its start waits for secrets or for a free slot. */
  startedAtMs: number | null;
  /** Its removal is in progress, so no other action may touch it. */
  isBeingRemoved: boolean;
  /** Requests and streams in flight to it. */
  inFlight: number;
  /** Age of the oldest of them. 0: none. */
  oldestRequestMs: number;
  /** Its last answer about runs in progress. Null: not asked yet. */
  runs: RunCount | null;
}

export interface RunCount {
  /** Null: the server does not report runs. Undefined: it did not answer. */
  count: number | null | undefined;
  /** When the listener asked. */
  askedAtMs: number;
}

/** What an agent server with a queue of its own said about it last. */
export interface QueueReading {
  /** Whether nothing waits or runs now. False also when no replica answered. */
  isQuiet: boolean;
  /** When the next run or cron is due. Null: nothing is planned. */
  dueAtMs: number | null;
  /** When the listener asked. */
  askedAtMs: number;
}

/** What a handover cost the callers. */
export interface Handover {
  revisionId: string;
  heldMs: number;
  requestsCut: number;
  runsCut: number;
}

/** The newest exit of a replica that nothing asked to stop. */
export interface LastExit {
  replicaId: string;
  revisionId: string;
  atMs: number;
  /** Exits of its revision until then. */
  count: number;
  cause: Cause;
}

/** The complete input of a pass. */
export interface Facts {
  deploymentId: string;
  /** Null: the control plane does not know this deployment, and its replicas are orphans. */
  assignment: Assignment | null;
  replicas: ReplicaFacts[];
  lastRequestAtMs: number | null;
  /** Null: not asked yet. */
  queue: QueueReading | null;
  /** What a handover needs before it may interrupt the serving revision. Null: not requested yet. */
  preparation: Preparation | null;
  /** Local state of a deleted deployment. */
  state: "present" | "beingRemoved" | "removed";
}

export interface Preparation {
  revisionId: string;
  phase: "running" | "done" | "failed";
  /** Why it failed. */
  reason: "ImagePull" | "NoCapacity" | "StartError";
  message: string;
}

/** Exits of a revision that has served before. The streak restarts after `healthyMs` without an exit. */
export interface Crashes {
  count: number;
  streak: number;
  lastAtMs: number;
  retryAtMs: number;
  cause: Cause;
}

/**
 * What one pass hands to the next. All of it may be lost: a restarted listener works from the assignment and the replicas
 * alone and only forgets how often something failed.
 */
export interface Memory {
  /** The revision that carries the traffic, or did last. Null: none so far. Undefined: to be derived from the replicas. */
  currentRevisionId: string | null | undefined;
  /** The target that was given up. */
  failed: { revisionId: string; cause: Cause } | null;
  /** Progress of starting an unproven target. */
  bringUp: { revisionId: string; sinceMs: number; attempts: number; retryAtMs: number; cause: Cause | null } | null;
  crashes: Readonly<Record<string, Crashes>>;
  /** Null: none since the start of the listener. */
  lastExit: LastExit | null;
  /** Ready replicas that get no new requests and stop when their requests have ended, with the start time of the drain. */
  draining: Readonly<Record<string, number>>;
  /** Since when a handover waits for the server to become quiet. Requests still reach it. */
  quietAwaitedSinceMs: number | null;
  /** Since when new requests wait for a handover. */
  heldSinceMs: number | null;
  /** The last handover that was completed or is in progress. */
  handover: Handover | null;
  /** Since when no replica of the current revision is ready. */
  downSinceMs: number | null;
  /** Set by the load. Null: not measured yet. */
  scale: Scale | null;
  isAsleep: boolean;
  /** When a sleeping deployment has to wake for a run or a cron that is due. Null: only a request wakes it. */
  dueAtMs: number | null;
  /** Since when a request waits for a sleeping deployment of which no replica is ready yet. */
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
  lastExit: null,
  draining: {},
  quietAwaitedSinceMs: null,
  heldSinceMs: null,
  handover: null,
  downSinceMs: null,
  scale: null,
  isAsleep: false,
  dueAtMs: null,
  wakingSinceMs: null,
  activeSinceMs: null,
  lastNumber: 0,
};

/** Returns the memory after a request, or work that is due, has woken a sleeping deployment. */
export function wake(memory: Memory, nowMs: number): Memory {
  if (!memory.isAsleep) return memory;
  return { ...memory, isAsleep: false, dueAtMs: null, wakingSinceMs: nowMs, activeSinceMs: nowMs, downSinceMs: null };
}
