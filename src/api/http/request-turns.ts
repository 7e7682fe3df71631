import { setTimeout as sleep } from "node:timers/promises";
import { errors } from "../../contract/error.ts";
import type { Operation } from "../../contract/operation.ts";

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
  /** Number that may run at the same time until one was slow. */
  atOnce: number;
  /** @param tookMs its share of the time, when others ran beside it. @param answer undefined: it failed */
  isSlow(tookMs: number, answer: Answer | undefined): boolean;
}

/**
 * From this on a read is slow, in milliseconds on the embedded database, which does one thing after the other. Elsewhere a statement
 * may wait for the network that long, and costs others nothing meanwhile.
 */
const slowMs = { embedded: 20, postgres: 100 };

/** Four reads at a time. More are no quicker: together they wait for the database. */
export const readRules = (database: "embedded" | "postgres"): TurnRules<unknown> => ({
  atOnce: 4,
  isSlow: (tookMs) => tookMs >= slowMs[database],
});

/** Characters of the answer to a change from which on it is large. Encoding 1 MB of secrets costs others 50 ms. */
const largeAnswer = 65_536;

/** Changes may wait for a code host, so their time says nothing about their cost, and more of them may wait together. */
export const changeRules: TurnRules<{ text: string }> = {
  atOnce: 16,
  isSlow: (_tookMs, answer) => (answer?.text.length ?? 0) >= largeAnswer,
};

/** A request counts as slow for this long after one was. */
const slowForMs = 10_000;

/** Longest pause after a slow request. */
const pauseMaxMs = 2_000;

/** Requests of one workspace that wait, and how long each does. */
const waitingMax = 256;
const waitMaxMs = 30_000;

/** Pause before a request is refused, so that a client that tries again at once costs little. */
const refusalDelayMs = 250;

/**
 * Lets requests of one workspace take turns, so that others need not wait for them, whatever the workspace has stored and however many
 * connections ask for it. Some run at a time. A request whose operation was slow the last time runs alone, and then pauses for as long
 * as it took. Measured without turns: tags, groups, listeners or revisions, the largest and the most that a workspace may have, read on
 * 16 connections, let the request of another workspace wait for 1.2 to 4.9 s in the median.
 */
export class RequestTurns<Answer> {
  readonly #rules: TurnRules<Answer>;
  readonly #owners = new Map<string, Owner>();

  constructor(rules: TurnRules<Answer>) {
    this.#rules = rules;
  }

  /**
   * Acts in the next free turn.
   * @param turn.owner the workspace, or the key of a caller without one
   * @param turn.signal aborts when the client leaves. A request that waits then leaves the queue, one that began goes on.
   * @throws ApiError 429 when too many requests wait, or this one has waited for too long, or its client has left
   */
  async take<T extends Answer>(
    turn: { owner: string; operation: string; signal: AbortSignal },
    act: () => Promise<T>,
  ): Promise<T> {
    const { atOnce, isSlow: isSlowNow } = this.#rules;
    const owner = this.#owners.get(turn.owner) ?? { quick: new Line(atOnce), slow: new Line(1), slowAt: new Map() };
    this.#owners.set(turn.owner, owner);
    const line = await beginIn(owner, turn);
    const end = () => {
      line.end();
      if (owner.quick.isFree && owner.slow.isFree && owner.slowAt.size === 0) this.#owners.delete(turn.owner);
    };
    const beganAt = performance.now();
    const besides = line.running;
    let answer: T | undefined;
    try {
      answer = await act();
      return answer;
    } finally {
      const tookMs = performance.now() - beganAt;
      // Requests that run beside each other share the time.
      if (isSlowNow(tookMs / Math.max(besides, line.running), answer)) {
        owner.slowAt.set(turn.operation, performance.now());
      }
      if (line === owner.slow) void sleep(Math.min(pauseMaxMs, tookMs), undefined, { ref: false }).then(end);
      else end();
    }
  }
}

interface Owner {
  quick: Line;
  slow: Line;
  /** When a request of an operation was last slow. */
  slowAt: Map<string, number>;
}

const isSlow = ({ slowAt }: Owner, operation: string) =>
  performance.now() - (slowAt.get(operation) ?? -slowForMs) < slowForMs;

/** Begins in the line for the operation. A request that waited in the wrong one, because another was slow meanwhile, waits in the other. */
async function beginIn(owner: Owner, { operation, signal }: { operation: string; signal: AbortSignal }): Promise<Line> {
  if (!isSlow(owner, operation)) {
    await owner.quick.begin(signal);
    if (!isSlow(owner, operation)) return owner.quick;
    owner.quick.end();
  }
  await owner.slow.begin(signal);
  return owner.slow;
}

/** Lets some tasks run at the same time, and others wait in order. */
class Line {
  readonly #max: number;
  readonly #waiting = new Set<() => void>();
  running = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get isFree(): boolean {
    return this.running === 0;
  }

  async begin(signal: AbortSignal): Promise<void> {
    if (this.running < this.#max) {
      this.running += 1;
      return;
    }
    if (signal.aborted) throw errors.tooManyRequests(1);
    if (this.#waiting.size >= waitingMax) {
      await sleep(refusalDelayMs, undefined, { ref: false });
      throw errors.tooManyRequests(1);
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.#waiting.delete(resolve);
      reject(errors.tooManyRequests(1));
    };
    const timer = setTimeout(leave, waitMaxMs).unref();
    signal.addEventListener("abort", leave, { once: true });
    this.#waiting.add(resolve);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", leave);
    }
  }

  /** Passes the place on to the next that waits. */
  end(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.running -= 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
