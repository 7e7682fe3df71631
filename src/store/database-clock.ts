import { performance } from "node:perf_hooks";
import { type Kysely, sql } from "kysely";
import type { Database } from "./schema.ts";

/**
 * What the database's `now()` answers, without asking. Deadlines, leases and expiries go by it alone: the clocks of several
 * servers differ, and somebody may set one of them.
 */
export interface DatabaseClock {
  now(): Date;
  stop(): Promise<void>;
}

/** Two quartz clocks drift apart by a few milliseconds in this time. */
const askIntervalMs = 30_000;

/** Of PostgreSQL: asked now and then; in between it goes on as time does, whatever this machine's clock says. */
export async function askClock(kysely: Kysely<Database>): Promise<DatabaseClock> {
  let aheadMs = 0;
  const ask = async () => {
    const beganMs = performance.now();
    const { rows } = await sql<{ at: Date }>`select clock_timestamp() as at`.execute(kysely);
    const tookMs = performance.now() - beganMs;
    aheadMs = (rows[0] as { at: Date }).at.getTime() - beganMs - tookMs / 2;
  };
  await ask();
  let asking = Promise.resolve();
  const timer = setInterval(() => {
    // The database is away: what is known goes on.
    asking = ask().catch(() => {});
  }, askIntervalMs).unref();
  return {
    now: () => new Date(performance.now() + aheadMs),
    async stop() {
      clearInterval(timer);
      await asking;
    },
  };
}
