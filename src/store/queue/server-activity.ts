import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { isUnsettled } from "../revisions/revisions.ts";
import { isClockInSync } from "./reconcile-queue.ts";

/** How often each server records that it polls for work. */
export const activityIntervalMs = 5_000;

/** A busy server or a slow database is late by a second or two. */
const pauseMinMs = 10_000;

/**
 * Records that a server polls for work now. If none has for a while (all were stopped, dead or frozen, or the database was
 * down), the deadlines of revisions are extended by that time: they limit how long a server may take, and a deploy that was
 * accepted before continues afterwards. Listeners that could not reach a server get time to reconnect. Does nothing while
 * the database's clock differs from the time that this server expects.
 * @returns how long no server polled, in ms; usually 0.
 */
export async function recordServerActivity(db: Db): Promise<number> {
  const { rows } = await db.query<{ ms: number }>(sql`
    with before as (
      select worked_at from clock where ${isClockInSync(db)} for update
    ), pause as (
      select now() - worked_at as length from before
       where now() - worked_at >= ${pauseMinMs} * interval '1 millisecond'
    ), postponed as (
      update revisions r set deadline_at = deadline_at + length from pause where ${isUnsettled("r")} and deadline_at is not null
    ), noted as (
      update clock set worked_at = greatest(clock.worked_at, now()),
                       resumed_at = case when exists (select from pause) then now() else resumed_at end from before
    )
    select (extract(epoch from length) * 1000)::float8 as ms from pause`);
  return Math.round(rows[0]?.ms ?? 0);
}
