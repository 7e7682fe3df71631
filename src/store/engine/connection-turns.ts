import { AsyncLocalStorage } from "node:async_hooks";

/** The workspace for which this code works. undefined: all of them. */
const workspaces = new AsyncLocalStorage<string>();

/** Runs `act` for a workspace: its statements take the turns of that workspace. null: those of the server itself. */
export function forWorkspace<T>(workspaceId: string | null, act: () => T): T {
  return workspaceId === null ? workspaces.exit(act) : workspaces.run(workspaceId, act);
}

/** Returns the workspace for which this code works; undefined: all of them. */
export const workspaceAtWork = (): string | undefined => workspaces.getStore();

/** Name of the server's own work among the workspaces. */
const server = "";

/** Fraction of the connections that one workspace may hold, of what the others leave. */
const workspaceShare = 0.5;

/** pg uses the same text when its own queue is too long. */
const waitedTooLong = "timeout exceeded when trying to connect";

/**
 * Lets workspaces take turns at the connections to the database. A statement that waits for the lock of a row holds its connection, so
 * requests of one workspace that change the same row would hold all of them, and in one queue for all, others would wait behind its
 * requests: measured with 200 connections that muted one deployment, 377 ms in the median instead of 3 ms. The server's own work has
 * no share, because it is bounded where it begins.
 */
export class ConnectionTurns {
  readonly #max: number;
  readonly #waitMaxMs: number;
  readonly #heldBy = new Map<string, number>();
  #held = 0;
  /** Tasks that wait, by workspace, in the order of their next turns. */
  readonly #waiting = new Map<string, Set<() => void>>();

  /** @param waitMaxMs longest wait; 0: without end */
  constructor({ max, waitMaxMs }: { max: number; waitMaxMs: number }) {
    this.#max = max;
    this.#waitMaxMs = waitMaxMs;
  }

  /**
   * Waits for a connection of the workspace for which this code works.
   * @returns a function that gives it back.
   * @throws Error after too long a wait.
   */
  async begin(): Promise<() => void> {
    const owner = workspaceAtWork() ?? server;
    if (this.#mayHold(owner)) this.#hold(owner);
    else await this.#wait(owner);
    return () => this.#end(owner);
  }

  #mayHold(owner: string): boolean {
    if (this.#held >= this.#max) return false;
    if (owner === server) return true;
    const own = this.#heldBy.get(owner) ?? 0;
    const left = this.#max - (this.#held - own);
    return own < Math.max(1, Math.floor(left * workspaceShare));
  }

  #hold(owner: string): void {
    this.#held += 1;
    this.#heldBy.set(owner, (this.#heldBy.get(owner) ?? 0) + 1);
  }

  async #wait(owner: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const own = this.#waiting.get(owner) ?? new Set();
    this.#waiting.set(owner, own.add(resolve));
    const giveUp = () => {
      own.delete(resolve);
      if (own.size === 0 && this.#waiting.get(owner) === own) this.#waiting.delete(owner);
      reject(new Error(waitedTooLong));
    };
    const timer = this.#waitMaxMs > 0 ? setTimeout(giveUp, this.#waitMaxMs).unref() : undefined;
    try {
      await promise;
    } finally {
      clearTimeout(timer);
    }
  }

  #end(owner: string): void {
    this.#held -= 1;
    const left = (this.#heldBy.get(owner) ?? 1) - 1;
    if (left > 0) this.#heldBy.set(owner, left);
    else this.#heldBy.delete(owner);
    while (this.#passOn());
  }

  /** Starts a task of the first workspace that may have a connection, and moves that workspace behind the others. */
  #passOn(): boolean {
    for (const [owner, own] of this.#waiting) {
      if (!this.#mayHold(owner)) continue;
      const [start] = own;
      if (start === undefined) return false;
      own.delete(start);
      this.#waiting.delete(owner);
      if (own.size > 0) this.#waiting.set(owner, own);
      this.#hold(owner);
      start();
      return true;
    }
    return false;
  }
}
