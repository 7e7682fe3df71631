/**
 * Pause between two streams that continue. Taking 64 KiB of tiny chunks occupies the event loop for as long, and requests of others need
 * several turns.
 */
const pauseMs = 10;

/** How long after a burst the requests to the same server wait for a turn too. Each of their answers could be one. */
const memoryMs = 10_000;

/** Begins or continues a stream. Returns false if the stream has ended. */
type Begin = () => boolean;

/**
 * Lets one stream at a time continue of all those with bursts of tiny chunks, so that others wait for one of them and not for all. The
 * servers take turns, so that one with many streams does not delay those of another.
 */
export class BurstTurns {
  readonly #pauseMs: number;
  readonly #memoryMs: number;
  /** What waits, by the server that it belongs to, in the order of their next turns. */
  readonly #waiting = new Map<object, Begin[]>();
  #isPlanned = false;

  constructor(times: { pauseMs?: number; memoryMs?: number } = {}) {
    this.#pauseMs = times.pauseMs ?? pauseMs;
    this.#memoryMs = times.memoryMs ?? memoryMs;
  }

  /** Returns the turns of one server. */
  ofServer(): BurstsOfServer {
    return new BurstsOfServer((server, begin) => this.#enqueue(server, begin), this.#memoryMs);
  }

  #enqueue(server: object, begin: Begin): void {
    const others = this.#waiting.get(server);
    if (others === undefined) this.#waiting.set(server, [begin]);
    else others.push(begin);
    this.#plan();
  }

  #plan(): void {
    if (!this.#isPlanned) setTimeout(() => this.#continueOne(), this.#pauseMs);
    this.#isPlanned = true;
  }

  #continueOne(): void {
    this.#isPlanned = false;
    for (const [server, list] of this.#waiting) {
      const next = list.shift();
      this.#waiting.delete(server);
      if (list.length > 0) this.#waiting.set(server, list);
      if (next?.() === true) break;
    }
    if (this.#waiting.size > 0) this.#plan();
  }
}

/** Whether a server has sent too many chunks, so that its next answers have to wait. */
export class BurstsOfServer {
  readonly #enqueue: (server: object, begin: Begin) => void;
  readonly #memoryMs: number;
  #lastAtMs = Number.NEGATIVE_INFINITY;

  constructor(enqueue: (server: object, begin: Begin) => void, memoryMs: number) {
    this.#enqueue = enqueue;
    this.#memoryMs = memoryMs;
  }

  seen(): void {
    this.#lastAtMs = performance.now();
  }

  /** Calls `begin` now, or in a turn of its own if the server has sent a burst lately. */
  begin(begin: Begin): void {
    if (performance.now() - this.#lastAtMs < this.#memoryMs) this.takeTurn(begin);
    else begin();
  }

  /** Calls `begin` in a turn of its own. */
  takeTurn(begin: Begin): void {
    this.#enqueue(this, begin);
  }
}
