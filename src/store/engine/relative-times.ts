import { type Kysely, sql } from "kysely";
import type { Database } from "./schema.ts";

/** Moments that are so far from now, not ones of a calendar: they move with the clock. A test compares it with the tables. */
export const relativeTimeColumns: Readonly<Record<string, readonly string[]>> = {
  clock: ["mark", "worked_at", "resumed_at"],
  revisions: ["deadline_at"],
  builds: ["lease_until"],
  reconcile_queue: ["run_at", "lease_until"],
  leases: ["lease_until"],
  listeners: ["lease_until", "last_seen_at"],
  webhook_deliveries: ["next_attempt_at", "lease_until"],
  tracing_projects: ["retry_at"],
  oauth_tokens: ["refresh_until", "expires_at"],
  branch_watches: ["look_at"],
  commit_reports: ["retry_at"],
  previews: ["retry_at"],
};

/**
 * Times to look or to try again: one that was written after the clock was set, and before this, must not come late. So the
 * end of a token: one that seems over is refreshed, while one that seems good when it is over is refused to its user.
 */
const mayBeEarly = new Set(["run_at", "next_attempt_at", "retry_at", "look_at", "expires_at"]);

/** One that was written after the clock was set, and before this, must not hold for as long as the jump. */
const leases = new Set(["lease_until", "refresh_until"]);

/** Above all of them: the longest are those of deliveries and of calls of an OAuth provider, a minute and a little. */
const leaseMsMax = 120_000;

/** More than what a busy second or a correction by NTP makes: somebody has set the clock. */
export const clockJumpMinMs = 2_000;

/**
 * Takes every deadline and lease along with a clock that was set by so much: once, however often it is called with one
 * mark, so that who does not know whether it was done may call it again. Looks may come early, and find nothing to do.
 * @param move.mark as it was before; it moves with them.
 * @param move.now by the clock as it was set.
 * @returns whether it was done now.
 */
export function shiftRelativeTimesOnce(
  kysely: Kysely<Database>,
  { byMs, mark, now }: { byMs: number; mark: Date; now: () => Date },
): Promise<boolean> {
  return kysely.transaction().execute(async (trx) => {
    const { rows } = await sql`select 1 from clock where mark = ${mark} for update`.execute(trx);
    if (rows.length > 0) await shiftRelativeTimes(trx, byMs, now());
    return rows.length > 0;
  });
}

async function shiftRelativeTimes(kysely: Kysely<Database>, byMs: number, now: Date): Promise<void> {
  const leaseEnd = new Date(now.getTime() + leaseMsMax);
  const moves = Object.entries(relativeTimeColumns).map(([table, columns]) => {
    const moved = columns.map((column) => {
      const later = sql`${sql.ref(column)} + ${byMs} * interval '1 millisecond'`;
      if (mayBeEarly.has(column)) return sql`${sql.ref(column)} = least(${sql.ref(column)}, ${later})`;
      if (!leases.has(column)) return sql`${sql.ref(column)} = ${later}`;
      // Of nothing, least() would make a lease.
      return sql`${sql.ref(column)} = case when ${sql.ref(column)} is not null
        then least(${later}, ${leaseEnd}::timestamptz) end`;
    });
    const set = columns.map((column) => sql`${sql.ref(column)} is not null`);
    return sql`${sql.ref(`${table}_moved`)} as (
      update ${sql.table(table)} set ${sql.join(moved)} where ${sql.join(set, sql` or `)})`;
  });
  await sql`with ${sql.join(moves)} select 1`.execute(kysely);
}
