import { performance } from "node:perf_hooks";
import { type Kysely, type RawBuilder, sql } from "kysely";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { clockJumpMinMs, shiftRelativeTimesOnce } from "./relative-times.ts";
import type { Database } from "./schema.ts";

/**
 * What the database's `now()` answers, without asking. Deadlines, leases and expiries go by it alone: the clocks of several
 * servers differ, and somebody may set one of them.
 */
export interface DatabaseClock {
  now(): Date;
  /** From here on a clock that somebody sets is noticed. To be called when the tables are there. */
  watch(): Promise<void>;
  stop(): Promise<void>;
}

const lookIntervalMs = 1_000;

/** An answer that took longer says too little of when it was given. */
const answerMsMax = 1_000;

/**
 * Of PostgreSQL: looked at each second; in between it goes on as time does, whatever this machine's clock says. When
 * somebody sets the clock of PostgreSQL's machine, every deadline and lease moves with it, once, whichever server comes
 * first; until then no server claims a deployment, because what the database says is not what it believes.
 */
export async function followDatabase(kysely: Kysely<Database>, logger: Logger): Promise<DatabaseClock> {
  let { aheadMs } = await readClock(kysely, sql`null`);
  let markMs: number | null = null;
  let isSeenBack = false;
  const look = async () => {
    const seen = await readClock(kysely, sql`(select mark from clock)`);
    if (seen.tookMs > answerMsMax) return;
    const byMs = Math.round(seen.aheadMs - aheadMs);
    // Nobody who has just come knows whether the others have moved them.
    const isMoved = markMs === null || seen.markMs !== markMs;
    if (!isMoved && Math.abs(byMs) >= clockJumpMinMs) {
      // Passes under way, here and elsewhere, end before deadlines are set back to what would have passed for them.
      if (byMs < 0 && !isSeenBack) {
        isSeenBack = true;
        return;
      }
      logger.warn({ seconds: Math.round(byMs / 1_000) }, "the clock of the database's machine was set");
      seen.markMs = await moveOnce(kysely, byMs, seen);
    }
    isSeenBack = false;
    ({ aheadMs, markMs } = seen);
  };
  let looking: Promise<void> | undefined;
  const lookOnce = () => {
    // The database is away, or its tables are being made: what is known goes on, and it is looked at again.
    looking ??= look()
      .catch((error: unknown) =>
        logger.debug({ error: describeError(error) }, "the clock of the database was not followed"),
      )
      .finally(() => {
        looking = undefined;
      });
    return looking;
  };
  const timer = setInterval(lookOnce, lookIntervalMs).unref();
  return {
    now: () => new Date(performance.now() + aheadMs),
    async watch() {
      await lookOnce();
      // It may have been under way before the tables were there.
      if (markMs === null) await lookOnce();
    },
    async stop() {
      clearInterval(timer);
      await looking;
    },
  };
}

async function readClock(kysely: Kysely<Database>, mark: RawBuilder<Date | null>) {
  const beganMs = performance.now();
  const { rows } = await sql<{ at: Date; mark: Date | null }>`
    select clock_timestamp() as at, ${mark} as mark`.execute(kysely);
  const tookMs = performance.now() - beganMs;
  const { at, mark: found } = rows[0] as { at: Date; mark: Date | null };
  return { aheadMs: at.getTime() - beganMs - tookMs / 2, tookMs, markMs: found?.getTime() ?? null };
}

/** @returns the mark as it is then, or as it was when another server came first. */
async function moveOnce(
  kysely: Kysely<Database>,
  byMs: number,
  { markMs, aheadMs }: { markMs: number | null; aheadMs: number },
): Promise<number | null> {
  if (markMs === null) return null;
  const move = { byMs, mark: new Date(markMs), now: () => new Date(performance.now() + aheadMs) };
  return (await shiftRelativeTimesOnce(kysely, move)) ? markMs + byMs : markMs;
}
