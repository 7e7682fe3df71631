import { performance } from "node:perf_hooks";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { clockJumpMinMs, shiftRelativeTimesOnce } from "./relative-times.ts";
import { type Sql, sql } from "./sql.ts";
import type { StatementPool } from "./statement-pool.ts";

/**
 * The database's `now()`, known without a query. Deadlines, leases and expiries use only this clock, because the clocks
 * of several servers differ and an operator may set one of them.
 */
export interface DatabaseClock {
  now(): Date;
  /** Starts to detect that the clock was set. Call it when the tables exist. */
  watch(): Promise<void>;
  stop(): Promise<void>;
}

const pollIntervalMs = 1_000;

/** A slower answer says too little about the moment it was given. */
const answerMsMax = 1_000;

/**
 * Follows the clock of PostgreSQL. It is read every second; in between, a monotonic timer advances it, whatever this
 * machine's clock shows. When an operator sets the clock of PostgreSQL's machine, the first server to notice shifts every
 * deadline and lease by the same amount, once. Until then no server claims a deployment, because the database's time
 * differs from the time the servers expect.
 */
export async function followDatabase(pool: StatementPool, logger: Logger): Promise<DatabaseClock> {
  let { aheadMs } = await readClock(pool, sql`null`);
  let markMs: number | null = null;
  let hasSeenBackwardJump = false;
  const poll = async () => {
    const seen = await readClock(pool, sql`(select mark from clock)`);
    if (seen.tookMs > answerMsMax) return;
    const byMs = Math.round(seen.aheadMs - aheadMs);
    // A server that has just started cannot know whether another one has shifted them already.
    const isAlreadyShifted = markMs === null || seen.markMs !== markMs;
    if (!isAlreadyShifted && Math.abs(byMs) >= clockJumpMinMs) {
      // Let passes that run here and elsewhere end before their deadlines move back, or the passes would time out.
      if (byMs < 0 && !hasSeenBackwardJump) {
        hasSeenBackwardJump = true;
        return;
      }
      logger.warn({ seconds: Math.round(byMs / 1_000) }, "database clock changed, deadlines shifted");
      seen.markMs = await shiftOnce(pool, byMs, seen);
    }
    hasSeenBackwardJump = false;
    ({ aheadMs, markMs } = seen);
  };
  let polling: Promise<void> | undefined;
  const pollOnce = () => {
    // If the database is down or its tables do not exist yet, keep the last known time and poll again.
    polling ??= poll()
      .catch((error: unknown) => logger.debug({ error: describeError(error) }, "reading the database's clock failed"))
      .finally(() => {
        polling = undefined;
      });
    return polling;
  };
  const timer = setInterval(pollOnce, pollIntervalMs).unref();
  return {
    now: () => new Date(performance.now() + aheadMs),
    async watch() {
      await pollOnce();
      // That poll may have started before the tables existed.
      if (markMs === null) await pollOnce();
    },
    async stop() {
      clearInterval(timer);
      await polling;
    },
  };
}

async function readClock(pool: StatementPool, mark: Sql) {
  const beganMs = performance.now();
  const { rows } = await pool.query<{ at: Date; mark: Date | null }>(sql`
    select clock_timestamp() as at, ${mark} as mark`);
  const tookMs = performance.now() - beganMs;
  const { at, mark: found } = rows[0] as { at: Date; mark: Date | null };
  return { aheadMs: at.getTime() - beganMs - tookMs / 2, tookMs, markMs: found?.getTime() ?? null };
}

/** Returns the mark after the shift, or the old one when another server was faster. */
async function shiftOnce(
  pool: StatementPool,
  byMs: number,
  { markMs, aheadMs }: { markMs: number | null; aheadMs: number },
): Promise<number | null> {
  if (markMs === null) return null;
  const move = { byMs, mark: new Date(markMs), now: () => new Date(performance.now() + aheadMs) };
  return (await shiftRelativeTimesOnce(pool, move)) ? markMs + byMs : markMs;
}
