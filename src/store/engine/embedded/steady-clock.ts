import { type Kysely, sql } from "kysely";
import { describeError, type Logger } from "../../../telemetry/log.ts";
import type { DatabaseClock } from "../database-clock.ts";
import { clockJumpMinMs, shiftRelativeTimesOnce } from "../relative-times.ts";
import type { Database } from "../schema.ts";

/**
 * The clock of the embedded database: it goes on evenly when somebody sets the machine's, as a fresh clock of a network or
 * a laptop that slept does, until `followClock` says otherwise. Shared with the engine's thread.
 */
export class SteadyClock {
  /** One 64-bit number: milliseconds since the epoch when `hrtime` was 0. */
  readonly shared: SharedArrayBuffer;
  readonly #zero: BigInt64Array;

  constructor(shared: SharedArrayBuffer = SteadyClock.#begin()) {
    this.shared = shared;
    this.#zero = new BigInt64Array(shared);
  }

  static #begin(): SharedArrayBuffer {
    const shared = new SharedArrayBuffer(8);
    new BigInt64Array(shared)[0] = BigInt(Date.now()) - evenMs();
    return shared;
  }

  nowMs(): number {
    return Number(Atomics.load(this.#zero, 0) + evenMs());
  }

  add(ms: number): void {
    Atomics.add(this.#zero, 0, BigInt(ms));
  }
}

/** The same in all threads of this process. */
const evenMs = () => process.hrtime.bigint() / 1_000_000n;

const lookIntervalMs = 1_000;

/**
 * Lets the database's clock follow the machine's. A jump takes along every deadline and lease, so that what was to happen in
 * a minute happens in a minute: forward before the clock and backward after it, for in between they may only be late. What
 * the database did not do, or did without an answer, is owed until it is known to be done.
 */
export function followClock(clock: SteadyClock, kysely: Kysely<Database>, logger: Logger): DatabaseClock {
  let following = Promise.resolve();
  let owed: { byMs: number; mark: Date } | undefined;
  const follow = async () => {
    owed ??= await begin();
    if (owed === undefined) return;
    const { byMs } = owed;
    await shiftRelativeTimesOnce(kysely, { ...owed, now: () => new Date() });
    if (byMs > 0) clock.add(byMs);
    owed = undefined;
  };
  const begin = async () => {
    const apartMs = () => Math.round(Date.now() - clock.nowMs());
    if (Math.abs(apartMs()) < clockJumpMinMs) {
      clock.add(apartMs());
      return;
    }
    // Asked before the clock is touched: one that is busy for long, as with a backup, would answer late or not at all.
    const { rows } = await sql<{ mark: Date }>`select mark from clock`.execute(kysely);
    const { mark } = rows[0] as { mark: Date };
    const byMs = apartMs();
    logger.warn({ seconds: Math.round(byMs / 1_000) }, "the clock of this machine was set");
    if (byMs < 0) clock.add(byMs);
    return { byMs, mark };
  };
  const timer = setInterval(() => {
    following = following.then(follow).catch((error: unknown) => {
      logger.warn({ error: describeError(error) }, "deadlines could not follow the clock");
    });
  }, lookIntervalMs).unref();
  return {
    now: () => new Date(clock.nowMs()),
    // The machine's is compared with it from the moment it was opened.
    async watch() {},
    async stop() {
      clearInterval(timer);
      await following;
    },
  };
}
