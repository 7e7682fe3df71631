/** How one reconcile pass ended. An exception is none of these: it is retried with growing delay. */
export type Outcome =
  | { kind: "converged"; because: string; isGone?: true }
  /** Someone else must move first; not a failure. `retryAt` null: only a change can help. */
  | { kind: "waiting"; retryAt: Date | null; because: string };
