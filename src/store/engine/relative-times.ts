import { sql } from "./sql.ts";
import type { StatementPool, Trx } from "./statement-pool.ts";

/** Columns with times relative to now, not calendar dates: they shift with the clock. A test compares the list with the tables. */
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
  image_removals: ["next_at", "leased_until"],
};

/**
 * Times of the next poll or retry. A value written after the clock was set but before this shift must not come late. The
 * same holds for the end of a token: one that looks expired is refreshed, but one that looks valid after its end makes the
 * user's call fail.
 */
const mayBeEarly = new Set(["run_at", "next_attempt_at", "retry_at", "look_at", "next_at", "expires_at"]);

/** A lease written after the clock was set but before this shift must not last as long as the jump. */
const leases = new Set(["lease_until", "leased_until", "refresh_until"]);

/** Above every lease: the longest is that of a removal of an image, two and a half minutes. */
const leaseMsMax = 180_000;

/** More than a busy second or a correction by NTP explains: an operator has set the clock. */
export const clockJumpMinMs = 2_000;

/**
 * Shifts every deadline and lease by the amount that the clock was set. It does so once per mark, however often it is
 * called, so a caller that does not know whether its call succeeded may repeat it. Polls may come early and find nothing.
 * @param move.mark the mark before the shift; it shifts too.
 * @param move.now the time by the new clock.
 * @returns whether this call did the shift.
 */
export function shiftRelativeTimesOnce(
  pool: StatementPool,
  { byMs, mark, now }: { byMs: number; mark: Date; now: () => Date },
): Promise<boolean> {
  return pool.transaction(async (trx) => {
    const { rows } = await trx.query(sql`select 1 from clock where mark = ${mark} for update`);
    if (rows.length > 0) await shiftRelativeTimes(trx, byMs, now());
    return rows.length > 0;
  });
}

async function shiftRelativeTimes(trx: Trx, byMs: number, now: Date): Promise<void> {
  const leaseEnd = new Date(now.getTime() + leaseMsMax);
  const moves = Object.entries(relativeTimeColumns).map(([table, columns]) => {
    const moved = columns.map((column) => {
      const later = sql`${sql.identifier(column)} + ${byMs} * interval '1 millisecond'`;
      if (mayBeEarly.has(column)) return sql`${sql.identifier(column)} = least(${sql.identifier(column)}, ${later})`;
      if (!leases.has(column)) return sql`${sql.identifier(column)} = ${later}`;
      // least() ignores null and would invent a lease for a row that has none.
      return sql`${sql.identifier(column)} = case when ${sql.identifier(column)} is not null
        then least(${later}, ${leaseEnd}::timestamptz) end`;
    });
    const set = columns.map((column) => sql`${sql.identifier(column)} is not null`);
    return sql`${sql.identifier(`${table}_moved`)} as (
      update ${sql.identifier(table)} set ${sql.join(moved)} where ${sql.join(set, " or ")})`;
  });
  await trx.query(sql`with ${sql.join(moves)} select 1`);
}
