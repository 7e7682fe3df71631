import { SlotQueues } from "../../base/slot-queues.ts";
import { queueLimits } from "./request-turns.ts";

/** Parsing bodies up to this size costs less than a wait. */
export const smallBodyBytesMax = 16_384;

/** Longest pause after a body. */
const pauseMaxMs = 500;

/**
 * Lets the large bodies of one workspace be parsed and checked one after the other, with a pause as long as it took. A body that is then
 * refused takes no turn of its operation. Measured without: 40 connections with bodies of 1.5 MB, each refused because of one field, made a
 * request of another workspace wait for 0.7 s in the median.
 */
export class ParseTurns {
  readonly #queues = new SlotQueues({ ...queueLimits, slots: 1 });

  /**
   * Parses a body in the next free turn.
   * @param signal aborts when the sender leaves. A body that waits then leaves the queue.
   * @throws ApiError 429 when too many bodies wait; what `parse` throws
   */
  async take<T>(owner: string, parse: () => T, signal: AbortSignal): Promise<T> {
    await this.#queues.enter(owner, signal);
    const beganAt = performance.now();
    try {
      return parse();
    } finally {
      this.#queues.leave(owner, Math.min(pauseMaxMs, performance.now() - beganAt));
    }
  }
}
