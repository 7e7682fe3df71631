import type { TrafficCounts } from "./counts.ts";

/** Whose callers a deployment admits: those of one workspace, or of any workspace if null. */
export interface Admission {
  workspaceId: string | null;
}

/** Where requests of one deployment go. The listener writes routes, the gateway only follows them. */
export interface Route {
  slug: string;
  deploymentId: string;
  /** The revision the targets run; sent as `x-pierhead-revision`. */
  revisionId: string | null;
  targets: { replicaId: string; host: string; port: number }[];
  /**
   * open: forward. held: new requests wait (handover in progress). asleep: as held, and `onWake` is called.
   * closed: answer 503 with `because`.
   */
  state: "open" | "held" | "asleep" | "closed";
  because: string | null;
  /** Who may call; absent: everybody. */
  admission?: Admission;
}

/** What the listener needs of a gateway; the Kubernetes driver gives it another one. */
export interface Traffic {
  /** Replaces the route of this slug at once; requests under way stay with the replica they began on. */
  setRoute(route: Route): void;
  removeRoute(slug: string): void;
  /** Requests and streams under way to one replica. */
  inFlight(replicaId: string): number;
  /** Resolves true when `inFlight` is 0, false when `timeoutMs` passed first. */
  drained(replicaId: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<boolean>;
  /** When the last request that was let in began or ended; null: none since start. */
  lastRequestAt(slug: string): Date | null;
  /** Traffic of every deployment that has a route. */
  counts(): TrafficCounts[];
  /** Calls back with the deployment id when a request arrives for an `asleep` route. */
  onWake(wake: (deploymentId: string) => void): void;
}
