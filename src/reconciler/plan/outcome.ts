/** How one reconcile pass ended. A pass that throws has no outcome: it is retried with growing delay. */
export type Outcome = (
  | { kind: "converged"; because: string; isGone?: true }
  /** Something else must happen first. `retryAt` null: only a change can help. `isProblem`: an attempt at it has failed. */
  | { kind: "waiting"; retryAt: Date | null; because: string; isProblem?: true }
) & {
  /** When it began, a revision said that earlier passes had failed. */
  wasRetried?: boolean;
};
