interface Waiting {
  key: string;
  grant: () => void;
}

/**
 * Bounds how much goes on at once, fairly: keys (tenants) take turns, and none holds more than half of the places. What
 * is urgent (somebody waits for an answer) goes first, knows no half, and may use half as many places again.
 */
export class FairLimit {
  readonly #max: number;
  readonly #held = new Map<string, number>();
  readonly #urgent: Waiting[] = [];
  /** In the order of their next turn. */
  readonly #ordinary = new Map<string, Waiting[]>();
  #heldCount = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Waits for a place.
   * @returns gives the place back; may be called again, to no effect.
   * @throws the reason of `signal`.
   */
  acquire({ key, isUrgent, signal }: { key: string; isUrgent: boolean; signal: AbortSignal }): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const waiting: Waiting = {
        key,
        grant: () => {
          signal.removeEventListener("abort", abort);
          resolve(this.#hold(key));
        },
      };
      const abort = () => {
        this.#leave(waiting);
        reject(signal.reason);
      };
      signal.addEventListener("abort", abort, { once: true });
      if (isUrgent) this.#urgent.push(waiting);
      else this.#queue(waiting);
      this.#grantNext();
    });
  }

  #queue(waiting: Waiting): void {
    const line = this.#ordinary.get(waiting.key);
    if (line === undefined) this.#ordinary.set(waiting.key, [waiting]);
    else line.push(waiting);
  }

  #hold(key: string): () => void {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#heldCount -= 1;
      const left = (this.#held.get(key) ?? 1) - 1;
      if (left === 0) this.#held.delete(key);
      else this.#held.set(key, left);
      this.#grantNext();
    };
  }

  #grantNext(): void {
    for (let next = this.#takeNext(); next !== undefined; next = this.#takeNext()) {
      this.#heldCount += 1;
      this.#held.set(next.key, (this.#held.get(next.key) ?? 0) + 1);
      next.grant();
    }
  }

  #takeNext(): Waiting | undefined {
    if (this.#urgent.length > 0 && this.#heldCount < this.#max * 1.5) return this.#urgent.shift();
    if (this.#heldCount >= this.#max) return undefined;
    const shareMax = Math.max(1, Math.floor(this.#max / 2));
    for (const [key, line] of this.#ordinary) {
      if ((this.#held.get(key) ?? 0) >= shareMax) continue;
      const next = line.shift();
      this.#ordinary.delete(key);
      // To the back: the other keys come first now.
      if (line.length > 0) this.#ordinary.set(key, line);
      return next;
    }
    return undefined;
  }

  #leave(waiting: Waiting): void {
    const urgentAt = this.#urgent.indexOf(waiting);
    if (urgentAt >= 0) this.#urgent.splice(urgentAt, 1);
    const line = this.#ordinary.get(waiting.key)?.filter((other) => other !== waiting) ?? [];
    if (line.length === 0) this.#ordinary.delete(waiting.key);
    else this.#ordinary.set(waiting.key, line);
  }
}
