import { type FoundLogEntry, type LogCounts, logSearchDeploymentsMax } from "../../contract/logs/search.ts";
import type { FoundLogRow, LogCountRow } from "../../store/logs/search-logs.ts";
import { levelNameOf, logEntryOf } from "./present-log-entry.ts";

export function foundLogEntryOf(row: FoundLogRow): FoundLogEntry {
  return {
    ...logEntryOf({ ...row, logged_at: new Date(row.at_ms) }, row.kind),
    deployment_id: row.deployment_id,
    deployment_name: row.deployment_name,
    revision_number: row.revision_number,
  };
}

type Counts = Pick<LogCounts, "levels" | "sources" | "deployments" | "histogram">;

/** Adds up the counts by level, source, deployment and interval. */
export function countsOf(rows: readonly LogCountRow[], stepMs: number): Counts {
  const levels = totals(rows, ({ level }) => level);
  const sources = totals(rows, ({ kind }) => kind);
  const names = new Map(rows.map(({ deployment_id: id, name }) => [id, name]));
  const deployments = totals(rows, ({ deployment_id: id }) => id);
  const intervals = new Map<number, Counts["histogram"][number]>();
  for (const { step, level, count } of rows) {
    const at = new Date(step * stepMs).toISOString();
    const interval = intervals.get(step) ?? { at, errors: 0, warnings: 0, others: 0 };
    intervals.set(step, interval);
    const name = levelNameOf(level);
    interval[name === "ERROR" || name === "CRITICAL" ? "errors" : name === "WARNING" ? "warnings" : "others"] += count;
  }
  return {
    levels: [...levels].sort(([a], [b]) => b - a).map(([level, count]) => ({ level: levelNameOf(level), count })),
    sources: [...sources].sort(([a], [b]) => a.localeCompare(b)).map(([source, count]) => ({ source, count })),
    deployments: [...deployments]
      .sort(([, a], [, b]) => b - a)
      .slice(0, logSearchDeploymentsMax)
      .map(([id, count]) => ({ deployment_id: id, name: names.get(id) ?? "", count })),
    histogram: [...intervals].sort(([a], [b]) => a - b).map(([, interval]) => interval),
  };
}

function totals<T>(rows: readonly LogCountRow[], keyOf: (row: LogCountRow) => T): Map<T, number> {
  const counts = new Map<T, number>();
  for (const row of rows) counts.set(keyOf(row), (counts.get(keyOf(row)) ?? 0) + row.count);
  return counts;
}
