/** How one reconcile pass ended. A pass that throws has no outcome: it is retried with growing delay. */
export type Outcome =
  | { kind: "converged"; because: string; isGone?: true }
  /** Something else must happen first, which is not a failure. `retryAt` null: only a change can help. */
  | { kind: "waiting"; retryAt: Date | null; because: string };
