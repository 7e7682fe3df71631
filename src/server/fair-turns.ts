/** Time of one turn of the event loop in which new requests begin. It is short because Node accepts one connection in each turn. */
const turnMs = 4;

/** Requests that begin in one turn while others wait. What they do after their first step is not measured. */
const beginsMax = 16;

/** Waiting requests of one sender, which take up to 25 KiB each. Those who do not pipeline get fewer, because connections are accepted slower. */
const waitingMax = 2_000;

/**
 * Begins requests in turns of the event loop. Node hands over the requests of up to a thousand connections in one turn, and a connection
 * may send several at once, so that a crowd of connections would hold the event loop for seconds. When a turn has taken its time,
 * further requests wait, and the addresses that sent them take turns. In a quiet server nothing waits.
 */
export class FairTurns {
  readonly #waiting = new Map<string, Set<() => void>>();
  #isInTurn = false;
  #startedAtMs = 0;
  #begun = 0;

  /**
   * Calls `begin` now, or in a later turn. Returns false, and does not call it, if too many requests of its sender wait.
   * @param sender whose requests are begun in order
   */
  take(sender: string, begin: () => void): boolean {
    const others = this.#waiting.get(sender);
    if (this.#waiting.size === 0 && this.#hasTime()) this.#begin(begin);
    else if (others === undefined) this.#waiting.set(sender, new Set([begin]));
    else if (others.size < waitingMax) others.add(begin);
    else return false;
    return true;
  }

  #hasTime(): boolean {
    if (!this.#isInTurn) return true;
    return this.#begun < beginsMax && performance.now() - this.#startedAtMs < turnMs;
  }

  #begin(begin: () => void): void {
    this.#startTurn();
    this.#begun += 1;
    begin();
  }

  #startTurn(): void {
    if (this.#isInTurn) return;
    this.#isInTurn = true;
    this.#startedAtMs = performance.now();
    this.#begun = 0;
    setImmediate(() => this.#endTurn());
  }

  #endTurn(): void {
    this.#isInTurn = false;
    for (const [sender, begins] of this.#waiting) {
      if (!this.#hasTime()) break;
      const [next] = begins;
      if (next !== undefined) begins.delete(next);
      // Further requests of this sender come behind those of the others.
      this.#waiting.delete(sender);
      if (begins.size > 0) this.#waiting.set(sender, begins);
      if (next !== undefined) this.#begin(next);
    }
  }
}
