import assert from "node:assert/strict";

/** Asserts that a queue has no run left and that none failed or began again. A waiting time of the last seconds may remain. */
export function assertNoRuns(queue: object): void {
  assert.partialDeepStrictEqual(queue, {
    ...{ n_pending: 0, n_running: 0, n_failed: 0, n_recovered: 0 },
    next_due_secs: null,
  });
}
