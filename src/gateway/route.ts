import type { TrafficCounts } from "./counts.ts";

/** The callers that a deployment admits: those of one workspace, or of any workspace if null. */
export interface Admission {
  workspaceId: string | null;
}

/** An address of a deployment that does not contain its slug. */
export interface CustomAddress {
  host: string;
  /** Without a slash at its end. */
  path: string;
  /** Milliseconds since the epoch. Of two deployments with the same address, the earlier one answers. */
  sinceMs: number;
}

/** Where requests of one deployment go. The listener writes routes, and the gateway follows them. */
export interface Route {
  slug: string;
  deploymentId: string;
  /** The workspace whose share of calls a request takes. Absent: the deployment counts as a workspace of its own. */
  workspaceId?: string;
  /** The revision that the targets run, sent as `x-pierhead-revision`. */
  revisionId: string | null;
  targets: { replicaId: string; host: string; port: number }[];
  /**
   * open: forward. held: new requests wait (handover in progress). asleep: as held, and `onWake` is called.
   * closed: answer 503 with `because`.
   */
  state: "open" | "held" | "asleep" | "closed";
  because: string | null;
  /** The callers to admit. Absent: all. */
  admission?: Admission;
  /** A further address. Absent: the deployment answers only at the addresses made from its slug. */
  custom?: CustomAddress;
}

/** The part of a gateway that the listener uses. */
export interface Traffic {
  /** Replaces the route of this slug at once. Requests in flight stay on their replica. */
  setRoute(route: Route): void;
  removeRoute(slug: string): void;
  /** Returns the number of requests and streams in flight to one replica. */
  inFlight(replicaId: string): number;
  /** Returns the age of the oldest of them. 0: there is none. */
  oldestRequestMs(replicaId: string): number;
  /** Resolves to true when `inFlight` is 0, or to false after `timeoutMs`. */
  drained(replicaId: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<boolean>;
  /** Returns when the last admitted request began or ended. Null: none since start. */
  lastRequestAt(slug: string): Date | null;
  /** Returns the traffic of every deployment that has a route. */
  counts(): TrafficCounts[];
  /** Sets the function to call with the deployment id when a request waits for an `asleep` route. */
  onWake(wake: (deploymentId: string) => void): void;
  /** Sets the function to call with each request that failed. Absent: the traffic does not pass through this process. */
  onFailedRequest?(report: (failed: FailedRequest) => void): void;
}

/** A request whose answer had a status of 500 or above, or broke off. */
export interface FailedRequest {
  deploymentId: string;
  revisionId: string;
  /** The last one that the request was sent to. Null: none. */
  replicaId: string | null;
  requestId: string;
  method: string;
  /** With the query. */
  path: string;
  status: number;
  /**
   * answered: the agent server sent the status. refused: the gateway did. cut: the agent server broke off within the answer.
   * stopped: the gateway did, at a limit or its own end.
   */
  end: "answered" | "refused" | "cut" | "stopped";
  durationMs: number;
}
