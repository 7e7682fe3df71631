import { type QueueLimits, SlotQueues } from "../../base/slot-queues.ts";
import { workspaceAtWork } from "../../store/engine/connection-turns.ts";
import { queueLimits } from "../http/request-turns.ts";

/** Longest pause after a call. */
const pauseMaxMs = 250;

/** Calls of all listeners of one workspace that run at the same time. */
const ofWorkspaceMax = 4;

/** From this on a call also keeps its place among those of the workspace for as long as it took. */
const slowMs = 20;

/**
 * Lets the calls of one listener take turns, however many connections it sends them on. After each turn it pauses for as long as the
 * turn took, so that a listener without end gets half of the time. Its calls have no rate limit, because the number of its deployments
 * decides how many it needs. Measured without turns: samples on eight connections let another workspace's request wait for 1.3 s in the
 * median, heartbeats and sessions on 64 for 25 times the quiet value. A workspace may have any number of listeners, so they share a few
 * places: log lines of 40 listeners made another workspace wait for 217 ms in the median.
 */
export class ListenerTurns {
  readonly #exemptId: string;
  readonly #queues: SlotQueues;
  readonly #ofWorkspaces: SlotQueues;

  /**
   * @param exemptId the listener of the server itself, which serves all workspaces
   * @param limits A listener sends few calls at a time, but one that starts asks for the secrets of each of its deployments. Its
   *   program gives up after 30 s.
   */
  constructor(exemptId: string, limits: Partial<QueueLimits> = {}) {
    this.#exemptId = exemptId;
    this.#queues = new SlotQueues({ ...queueLimits, slots: 1, ...limits });
    // Each listener has at most one call here.
    const ofWorkspace = { slots: ofWorkspaceMax, waitingMax: Number.POSITIVE_INFINITY };
    this.#ofWorkspaces = new SlotQueues({ ...queueLimits, ...limits, ...ofWorkspace });
  }

  /**
   * Acts in the next free turn.
   * @param signal aborts when the sender leaves. A call that waits then leaves the queue, one that began goes on.
   * @throws ApiError 429 when too many calls wait, or this one has waited for too long, or its sender has left
   */
  async take<T>(listenerId: string, act: () => Promise<T>, signal: AbortSignal): Promise<T> {
    if (listenerId === this.#exemptId) return act();
    const cameAt = performance.now();
    await this.#queues.enter(listenerId, signal);
    let pauseMs = 0;
    try {
      const workspace = workspaceAtWork() ?? listenerId;
      await this.#ofWorkspaces.enter(workspace, signal, performance.now() - cameAt);
      const beganAt = performance.now();
      try {
        return await act();
      } finally {
        pauseMs = Math.min(pauseMaxMs, performance.now() - beganAt);
        this.#ofWorkspaces.leave(workspace, pauseMs < slowMs ? 0 : pauseMs);
      }
    } finally {
      this.#queues.leave(listenerId, pauseMs);
    }
  }
}

/** The turns of a listener by kind, so that short calls need not wait for long ones. */
export interface TurnsByKind {
  /** Sessions and heartbeats, without which a listener loses its lease. */
  sessions: ListenerTurns;
  /** Reports of status, for which rollouts wait. */
  statuses: ListenerTurns;
  /** Batches of log lines and samples. */
  reports: ListenerTurns;
  /** All other calls. */
  calls: ListenerTurns;
}

export function createTurns(exemptId: string): TurnsByKind {
  const create = () => new ListenerTurns(exemptId);
  return { sessions: create(), statuses: create(), reports: create(), calls: create() };
}
