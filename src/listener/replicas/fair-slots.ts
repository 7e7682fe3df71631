interface Waiting {
  key: string;
  grant: () => void;
}

/**
 * Fair bounded concurrency. Keys (tenants) take turns, and no key holds more than half of the slots. Urgent work, on which
 * a caller waits, goes first, is exempt from the half, and may use half as many slots in addition.
 */
export class FairSlots {
  readonly #max: number;
  readonly #held = new Map<string, number>();
  readonly #urgent: Waiting[] = [];
  /** Keys in the order of their next turn. */
  readonly #ordinary = new Map<string, Waiting[]>();
  #heldCount = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Waits for a slot.
   * @returns a function that releases the slot. Further calls have no effect.
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
        this.#removeWaiting(waiting);
        reject(signal.reason);
      };
      signal.addEventListener("abort", abort, { once: true });
      if (isUrgent) this.#urgent.push(waiting);
      else this.#enqueue(waiting);
      this.#grantNext();
    });
  }

  #enqueue(waiting: Waiting): void {
    const queue = this.#ordinary.get(waiting.key);
    if (queue === undefined) this.#ordinary.set(waiting.key, [waiting]);
    else queue.push(waiting);
  }

  #hold(key: string): () => void {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#heldCount -= 1;
      const remaining = (this.#held.get(key) ?? 1) - 1;
      if (remaining === 0) this.#held.delete(key);
      else this.#held.set(key, remaining);
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
    for (const [key, queue] of this.#ordinary) {
      if ((this.#held.get(key) ?? 0) >= shareMax) continue;
      const next = queue.shift();
      this.#ordinary.delete(key);
      // Move the key to the back: the other keys come first now.
      if (queue.length > 0) this.#ordinary.set(key, queue);
      return next;
    }
    return undefined;
  }

  #removeWaiting(waiting: Waiting): void {
    const urgentIndex = this.#urgent.indexOf(waiting);
    if (urgentIndex >= 0) this.#urgent.splice(urgentIndex, 1);
    const queue = this.#ordinary.get(waiting.key)?.filter((other) => other !== waiting) ?? [];
    if (queue.length === 0) this.#ordinary.delete(waiting.key);
    else this.#ordinary.set(waiting.key, queue);
  }
}
