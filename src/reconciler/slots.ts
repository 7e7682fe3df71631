/** A caller that finds no free slot retries no sooner than this. */
const retryMinMs = 500;

/** However many callers wait, one of them retries within this time, so a freed slot is soon taken. */
const retryGapMs = 5;

/** Spreads the retries of callers that found no free slot: the more of them wait, the longer each one waits. */
export class Stagger {
  #nextMs = 0;

  nextInMs(nowMs = performance.now()): number {
    this.#nextMs = Math.max(nowMs + retryMinMs, this.#nextMs + retryGapMs);
    return Math.ceil(this.#nextMs - nowMs);
  }
}

/** Error: all slots are taken now. Retry after `retryInMs`. */
export class NoFreeSlot extends Error {
  override readonly name = "NoFreeSlot";
  readonly retryInMs: number;
  constructor(retryInMs: number) {
    super("no free slot");
    this.retryInMs = retryInMs;
  }
}

/**
 * Slots for work that is heavier than waiting for our database, such as calls to other servers. There is no waiting line,
 * because a waiting caller would hold its pass and with it other deployments.
 */
export class Slots {
  readonly #max: number;
  readonly #stagger = new Stagger();
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Runs `act` in a slot. @throws NoFreeSlot, and what `act` throws. */
  async hold<T>(act: () => Promise<T>): Promise<T> {
    if (this.#taken >= this.#max) throw new NoFreeSlot(this.#stagger.nextInMs());
    this.#taken += 1;
    try {
      return await act();
    } finally {
      this.#taken -= 1;
    }
  }
}
