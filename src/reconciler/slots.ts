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
  /** Fraction of what the others leave that one workspace may hold, so that its slow hosts leave slots for the next one. */
  readonly #workspaceShare: number;
  readonly #stagger = new Stagger();
  readonly #byWorkspace = new Map<string, number>();
  #taken = 0;

  constructor(max: number, workspaceShare = 1) {
    this.#max = max;
    this.#workspaceShare = workspaceShare;
  }

  /**
   * Runs `act` in a slot.
   * @param workspaceId that chose the server to call; absent: the operator chose it.
   * @throws NoFreeSlot, and what `act` throws.
   */
  async hold<T>(act: () => Promise<T>, workspaceId?: string): Promise<T> {
    if (this.#taken >= this.#max || !this.#mayHold(workspaceId)) throw new NoFreeSlot(this.#stagger.nextInMs());
    this.#count(workspaceId, 1);
    try {
      return await act();
    } finally {
      this.#count(workspaceId, -1);
    }
  }

  #mayHold(workspaceId: string | undefined): boolean {
    if (workspaceId === undefined) return true;
    const held = this.#byWorkspace.get(workspaceId) ?? 0;
    const left = this.#max - (this.#taken - held);
    return held < Math.max(1, Math.floor(left * this.#workspaceShare));
  }

  #count(workspaceId: string | undefined, change: 1 | -1): void {
    this.#taken += change;
    if (workspaceId === undefined) return;
    const held = (this.#byWorkspace.get(workspaceId) ?? 0) + change;
    if (held === 0) this.#byWorkspace.delete(workspaceId);
    else this.#byWorkspace.set(workspaceId, held);
  }
}
