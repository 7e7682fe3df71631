import { type QueueLimits, SlotQueues } from "../../base/slot-queues.ts";
import { queueLimits } from "../http/request-turns.ts";

/** One queue for all workspaces. */
const all = "";

/**
 * Lets one statement of all searches of logs run at a time, so that many searches are slow and nothing else is. Workspaces take turns,
 * because each has at most one statement in the queue for all.
 */
export class SearchTurns {
  readonly #ofWorkspaces: SlotQueues;
  readonly #ofAll: SlotQueues;

  constructor(limits: Partial<QueueLimits> = {}) {
    this.#ofWorkspaces = new SlotQueues({ ...queueLimits, slots: 1, ...limits });
    this.#ofAll = new SlotQueues({ ...queueLimits, ...limits, slots: 1, waitingMax: Number.POSITIVE_INFINITY });
  }

  /**
   * Runs a statement when its turn has come.
   * @param signal aborts when the client leaves
   * @throws ApiError 429 when too many statements wait, or this one has waited for too long, or its client has left
   */
  take<T>(workspaceId: string, statement: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const cameAt = performance.now();
    const whenFirst = () => {
      return this.#ofAll.run(all, statement, { signal, waitedMs: performance.now() - cameAt });
    };
    return this.#ofWorkspaces.run(workspaceId, whenFirst, { signal });
  }
}
