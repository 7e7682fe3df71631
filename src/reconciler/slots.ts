/** Who finds no place asks again no sooner than this. */
const askAgainMs = 500;

/** However many wait, one of them asks in this time: a place that became free is taken within it. */
const askApartMs = 5;

/** When those who found no place ask again: the more there are, the longer each stays away. */
export class Stagger {
  #nextMs = 0;

  nextInMs(nowMs = performance.now()): number {
    this.#nextMs = Math.max(nowMs + askAgainMs, this.#nextMs + askApartMs);
    return Math.ceil(this.#nextMs - nowMs);
  }
}

/** There is no free place now; ask again then. */
export class NoPlace extends Error {
  override readonly name = "NoPlace";
  readonly retryInMs: number;
  constructor(retryInMs: number) {
    super("no free place");
    this.retryInMs = retryInMs;
  }
}

/**
 * Places for work that is heavier than waiting for our database. Nobody waits in line: that would hold the pass, and with
 * it other deployments.
 */
export class Places {
  readonly #max: number;
  readonly #stagger = new Stagger();
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Runs `act` in a place. @throws NoPlace, and what `act` throws. */
  async hold<T>(act: () => Promise<T>): Promise<T> {
    if (this.#taken >= this.#max) throw new NoPlace(this.#stagger.nextInMs());
    this.#taken += 1;
    try {
      return await act();
    } finally {
      this.#taken -= 1;
    }
  }
}
