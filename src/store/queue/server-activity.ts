import { sql } from "kysely";
import type { Db } from "../engine/database.ts";
import { isUnsettled } from "../revisions/revisions.ts";
import { isClockInSync } from "./reconcile-queue.ts";

/** Each server says so often that it looks for work. */
export const activityIntervalMs = 5_000;

/** A server that is busy, or a database that is slow, is late by a second or two. */
const pauseMinMs = 10_000;

/**
 * Notes that a server looks for work now. When none has for a while, because all of them were stopped, dead or frozen, or
 * because the database was away, the deadlines of revisions are so much later: they bound what a server may take, and a
 * deploy that was accepted before goes on after. Listeners, whom nobody could hear, have the time to be heard again. Nothing
 * as long as the database's clock is not what this server believes.
 * @returns for how long nobody did, in ms: 0 mostly.
 */
export async function recordServerActivity(db: Db): Promise<number> {
  const { rows } = await sql<{ ms: number }>`
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
    select (extract(epoch from length) * 1000)::float8 as ms from pause`.execute(db.kysely);
  return Math.round(rows[0]?.ms ?? 0);
}
