import type { DeploymentState } from "../plan/state.ts";

/**
 * Result of a step. `done`: go on at once; `state` is the deployment after the step where the step knows it without
 * reading it again. `later`: something else must happen first, so the pass ends and is retried.
 * `isProblem`: it has failed, and users should know why.
 */
export type Performed =
  | { kind: "done"; state?: DeploymentState }
  | { kind: "later"; retryInMs: number; because: string; isProblem?: true };

export const done: Performed = { kind: "done" };
