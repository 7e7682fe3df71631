import { setTimeout as sleep } from "node:timers/promises";

/** Limits of the queue of each owner. */
export interface QueueLimits {
  /** Tasks that may run at the same time. */
  slots: number;
  /** Tasks that may wait. Further ones are refused. */
  waitingMax: number;
  /** Longest wait of a task. */
  waitMaxMs: number;
  /** Creates the error of a task that gets no slot. */
  refusal(): Error;
}

/** Pause before a task is refused because too many wait, so that a client that tries again at once costs little. */
const refusalDelayMs = 250;

/** Gives each owner some slots. Further tasks of the owner wait for a slot in the order in which they came. */
export class SlotQueues {
  readonly #limits: QueueLimits;
  /** The owners that have tasks. */
  readonly #queues = new Map<string, Queue>();

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  /**
   * Waits for a slot.
   * @param signal aborts when the task is no longer needed. It then leaves the queue.
   * @param waitedMs how long the task has waited in other queues, which counts as well
   * @throws the refusal of the limits: too many tasks wait, this one has waited for too long, or is no longer needed
   */
  async enter(owner: string, signal: AbortSignal, waitedMs = 0): Promise<void> {
    const { slots, waitingMax, waitMaxMs, refusal } = this.#limits;
    const queue = this.#queues.get(owner) ?? { running: 0, waiting: new Set() };
    this.#queues.set(owner, queue);
    if (queue.running < slots) {
      queue.running += 1;
      return;
    }
    if (signal.aborted) throw refusal();
    if (queue.waiting.size >= waitingMax) {
      await sleep(refusalDelayMs, undefined, { ref: false });
      throw refusal();
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const giveUp = () => {
      queue.waiting.delete(resolve);
      reject(refusal());
    };
    const timer = setTimeout(giveUp, Math.max(0, waitMaxMs - waitedMs)).unref();
    signal.addEventListener("abort", giveUp, { once: true });
    queue.waiting.add(resolve);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", giveUp);
    }
  }

  /** Runs a task in a slot of the owner. @param options see `enter` @throws as `enter`, and what the task throws */
  async run<T>(
    owner: string,
    task: () => Promise<T>,
    { signal, waitedMs = 0 }: { signal: AbortSignal; waitedMs?: number },
  ): Promise<T> {
    await this.enter(owner, signal, waitedMs);
    try {
      return await task();
    } finally {
      this.leave(owner);
    }
  }

  /** Returns how many slots of the owner are taken. */
  running(owner: string): number {
    return this.#queues.get(owner)?.running ?? 0;
  }

  /** Gives the slot of a task that ended to the next one. @param pauseMs how long the slot stays taken before that */
  leave(owner: string, pauseMs = 0): void {
    if (pauseMs > 0) {
      void sleep(pauseMs, undefined, { ref: false }).then(() => this.leave(owner));
      return;
    }
    const queue = this.#queues.get(owner);
    if (queue === undefined) return;
    const [next] = queue.waiting;
    if (next !== undefined) {
      queue.waiting.delete(next);
      next();
      return;
    }
    queue.running -= 1;
    if (queue.running === 0) this.#queues.delete(owner);
  }
}

interface Queue {
  running: number;
  /** Starts each task that waits, in order. */
  waiting: Set<() => void>;
}
