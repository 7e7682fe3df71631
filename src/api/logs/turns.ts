/** Lets one task run at a time, and takes those of different owners in turn, however many tasks one of them has. */
export class Turns {
  /** In the order of their next turns. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #isTaken = false;

  /** Runs a task when its turn has come. */
  async take<T>(owner: string, task: () => Promise<T>): Promise<T> {
    if (this.#isTaken) await new Promise<void>((resolve) => this.#enqueue(owner, resolve));
    this.#isTaken = true;
    try {
      return await task();
    } finally {
      this.#passOn();
    }
  }

  #enqueue(owner: string, start: () => void): void {
    const own = this.#waiting.get(owner);
    if (own === undefined) this.#waiting.set(owner, [start]);
    else own.push(start);
  }

  /**
   * Gives the turn to the next owner and moves that owner behind all others. No other task can take the turn in
   * between.
   */
  #passOn(): void {
    const [owner, own] = this.#waiting.entries().next().value ?? [];
    if (owner === undefined || own === undefined) {
      this.#isTaken = false;
      return;
    }
    const start = own.shift();
    this.#waiting.delete(owner);
    if (own.length > 0) this.#waiting.set(owner, own);
    start?.();
  }
}
