import { describeError, type Logger } from "../../../telemetry/log.ts";
import type { DatabaseClock } from "../database-clock.ts";
import { clockJumpMinMs, shiftRelativeTimesOnce } from "../relative-times.ts";
import { sql } from "../sql.ts";
import type { StatementPool } from "../statement-pool.ts";

/**
 * The clock of the embedded database. It advances evenly when the machine's clock is set, for example by a first NTP sync or
 * after a laptop slept, until `followClock` adjusts it. Shared with the engine's thread.
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
    new BigInt64Array(shared)[0] = BigInt(Date.now()) - monotonicMs();
    return shared;
  }

  nowMs(): number {
    return Number(Atomics.load(this.#zero, 0) + monotonicMs());
  }

  add(ms: number): void {
    Atomics.add(this.#zero, 0, BigInt(ms));
  }
}

/** The same value in all threads of this process. */
const monotonicMs = () => process.hrtime.bigint() / 1_000_000n;

const pollIntervalMs = 1_000;

/**
 * Makes the database's clock follow the machine's. A jump shifts every deadline and lease, so that an event due in a
 * minute still happens in a minute. Deadlines shift before a forward jump of the clock and after a backward one, because
 * in between they may only be late. A shift that failed, or whose answer was lost, is retried until it is known to be done.
 */
export function followClock(clock: SteadyClock, pool: StatementPool, logger: Logger): DatabaseClock {
  let following = Promise.resolve();
  let pendingShift: { byMs: number; mark: Date } | undefined;
  const follow = async () => {
    pendingShift ??= await begin();
    if (pendingShift === undefined) return;
    const { byMs } = pendingShift;
    await shiftRelativeTimesOnce(pool, { ...pendingShift, now: () => new Date() });
    if (byMs > 0) clock.add(byMs);
    pendingShift = undefined;
  };
  const begin = async () => {
    const apartMs = () => Math.round(Date.now() - clock.nowMs());
    if (Math.abs(apartMs()) < clockJumpMinMs) {
      clock.add(apartMs());
      return;
    }
    // Read the mark before changing the clock: a busy database, such as during a backup, would answer late or not at all.
    const { rows } = await pool.query<{ mark: Date }>(sql`select mark from clock`);
    const { mark } = rows[0] as { mark: Date };
    const byMs = apartMs();
    logger.warn({ seconds: Math.round(byMs / 1_000) }, "machine clock changed, shifting deadlines");
    if (byMs < 0) clock.add(byMs);
    return { byMs, mark };
  };
  const timer = setInterval(() => {
    following = following.then(follow).catch((error: unknown) => {
      logger.warn({ error: describeError(error) }, "shifting deadlines with the clock failed");
    });
  }, pollIntervalMs).unref();
  return {
    now: () => new Date(clock.nowMs()),
    // The machine's clock is compared from the moment the database was opened.
    async watch() {},
    async stop() {
      clearInterval(timer);
      await following;
    },
  };
}
