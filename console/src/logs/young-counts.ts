import type { LogCounts, LogSearch } from "../../../src/contract/logs/search.ts";

/** A histogram shows at least this time. */
const shownMinMs = 900_000;

/**
 * Returns the counts of a search and where its histogram begins. The empty time before a deployment was made would press
 * its lines into one bar, so the histogram begins at the creation. It keeps the whole range if a line is older, as the time
 * that a program logs can be, or if older lines are not counted yet.
 */
export async function youngCounts(
  answer: LogSearch,
  bornAt: string | undefined,
  ask: (more: { start_time: string; limit: number }) => Promise<LogSearch>,
): Promise<{ start: string; counts: LogCounts | null }> {
  const { counts, start_time: startTime } = answer;
  const whole = { start: startTime, counts };
  if (bornAt === undefined || counts === null || counts.next_cursor !== null) return whole;
  const bornMs = Math.min(Date.parse(bornAt), Date.now() - shownMinMs);
  const [oldest] = counts.histogram;
  if (bornMs <= Date.parse(startTime) || (oldest !== undefined && Date.parse(oldest.at) < bornMs - counts.step_ms)) {
    return whole;
  }
  const start = new Date(bornMs).toISOString();
  const { counts: finer } = await ask({ start_time: start, limit: 1 });
  if (finer === null) return whole;
  return { start, counts: { ...counts, histogram: finer.histogram, step_ms: finer.step_ms } };
}
