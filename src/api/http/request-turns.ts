import { type QueueLimits, SlotQueues } from "../../base/slot-queues.ts";
import { errors } from "../../contract/error.ts";
import type { Operation } from "../../contract/operation.ts";
import type { JsonStream } from "./json-stream.ts";

/** Reads that wait for a person or a code host, and the search of logs, which has turns of its own. */
const othersAreAsked: ReadonlySet<string> = new Set([
  "waitForAuth",
  "searchLogs",
  "findAgentProjects",
  "listGithubInstalls",
  "listGithubRepos",
  "listForgeInstalls",
  "listForgeRepos",
  "pageGithubInstallations",
  "pageGithubRepositories",
  "pageForgeInstallations",
]);

/** Reports whether an operation reads what its workspace has stored. Calls of agents about their callers are too frequent for turns. */
export function takesTurns({ id, verb, role, response, canStream }: Operation): boolean {
  const isRead = verb === "GET" && response.schema !== null && response.isPage !== true && !canStream;
  return isRead && role !== "none" && role !== "caller" && !othersAreAsked.has(id);
}

/** Reports whether an operation changes what its workspace has stored, and answers with it. */
export function answersWithChange({ verb, role, response, stream, canStream }: Operation): boolean {
  const isJson = response.schema !== null && response.isPage !== true && stream === null && !canStream;
  return isJson && verb !== "GET" && (role === "deployer" || role === "admin");
}

/** Which requests of one workspace take turns. */
export interface TurnRules<Answer> {
  /** Number that may run at the same time until one was costly. */
  atOnce: number;
  /** @param tookMs its share of the time, when others ran beside it. @param answer undefined: it failed */
  isCostly(tookMs: number, answer: Answer | undefined): boolean;
}

/**
 * From this on a read is costly, in milliseconds on the embedded database, which does one thing after the other. Elsewhere a statement
 * may wait for the network that long, and costs others nothing meanwhile.
 */
const costlyMs = { embedded: 20, postgres: 100 };

/** Four reads at a time. More are no quicker: together they wait for the database. */
export const readRules = (database: "embedded" | "postgres"): TurnRules<unknown> => ({
  atOnce: 4,
  isCostly: (tookMs) => tookMs >= costlyMs[database],
});

/** Characters of the answer to a change from which on it is large. Encoding 1 MB of secrets costs others 50 ms. */
const largeAnswer = 65_536;

/** Changes may wait for a code host, so their time says nothing about their cost, and more of them may wait together. */
export const changeRules: TurnRules<{ text: string } | JsonStream> = {
  atOnce: 16,
  isCostly: (_tookMs, answer) => answer !== undefined && "text" in answer && answer.text.length >= largeAnswer,
};

/** An operation counts as costly for this long after a request of it was. */
const costlyForMs = 10_000;

/** Longest pause after a costly request. */
const pauseMaxMs = 2_000;

/** How many requests of one workspace or listener wait, and how long. */
export const queueLimits: Omit<QueueLimits, "slots"> = {
  waitingMax: 256,
  waitMaxMs: 30_000,
  refusal: () => errors.tooManyRequests(1),
};

/**
 * Lets requests of one workspace take turns, so that others need not wait for them, whatever the workspace has stored and however many
 * connections ask for it. Some run at a time. A request whose operation was costly the last time runs alone, and then pauses for as long
 * as it took. Measured without turns: tags, groups, listeners or revisions, the largest and the most that a workspace may have, read on
 * 16 connections, let the request of another workspace wait for 1.2 to 4.9 s in the median.
 */
export class RequestTurns<Answer> {
  readonly #isCostly: TurnRules<Answer>["isCostly"];
  /** Requests that run beside each other. */
  readonly #together: SlotQueues;
  /** Requests of costly operations. */
  readonly #alone: SlotQueues;
  /** When a request of an operation of an owner was last costly, the oldest first. */
  readonly #costlyAt = new Map<string, number>();

  constructor({ atOnce, isCostly }: TurnRules<Answer>, limits: Partial<QueueLimits> = {}) {
    this.#isCostly = isCostly;
    this.#together = new SlotQueues({ ...queueLimits, slots: atOnce, ...limits });
    this.#alone = new SlotQueues({ ...queueLimits, slots: 1, ...limits });
  }

  /**
   * Acts in the next free turn.
   * @param turn.owner the workspace, or the key of a caller without one
   * @param turn.signal aborts when the client leaves. A request that waits then leaves the queue, one that began goes on.
   * @throws ApiError 429 when too many requests wait, or this one has waited for too long, or its client has left
   */
  async take<T extends Answer>(turn: Turn, act: () => Promise<T>): Promise<T> {
    const { owner } = turn;
    const queues = await this.#enter(turn);
    const beganAt = performance.now();
    const besides = queues.running(owner);
    let answer: T | undefined;
    try {
      answer = await act();
      return answer;
    } finally {
      const tookMs = performance.now() - beganAt;
      // Requests that run beside each other share the time.
      if (this.#isCostly(tookMs / Math.max(besides, queues.running(owner)), answer)) this.#remember(turn);
      queues.leave(owner, queues === this.#alone ? Math.min(pauseMaxMs, tookMs) : 0);
    }
  }

  /** Enters the queue for the operation. A request that waited in the wrong one, because another was costly meanwhile, waits in the other. */
  async #enter(turn: Turn): Promise<SlotQueues> {
    const { owner, signal } = turn;
    const cameAt = performance.now();
    if (!this.#wasCostly(turn)) {
      await this.#together.enter(owner, signal);
      if (!this.#wasCostly(turn)) return this.#together;
      this.#together.leave(owner);
    }
    await this.#alone.enter(owner, signal, performance.now() - cameAt);
    return this.#alone;
  }

  #wasCostly(turn: Turn): boolean {
    return performance.now() - (this.#costlyAt.get(nameOf(turn)) ?? -costlyForMs) < costlyForMs;
  }

  #remember(turn: Turn): void {
    const nowMs = performance.now();
    this.#costlyAt.delete(nameOf(turn));
    this.#costlyAt.set(nameOf(turn), nowMs);
    for (const [name, costlyAt] of this.#costlyAt) {
      if (nowMs - costlyAt < costlyForMs) return;
      this.#costlyAt.delete(name);
    }
  }
}

interface Turn {
  owner: string;
  operation: string;
  signal: AbortSignal;
}

const nameOf = ({ owner, operation }: Turn) => `${operation} ${owner}`;
