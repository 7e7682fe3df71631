import type { FoundLogEntry, LogCounts } from "../../../src/contract/logs/search.ts";

/** Adds the counts of older lines, which a later response has, to those of newer ones. */
export function mergeCounts(newer: LogCounts, older: LogCounts): LogCounts {
  return {
    ...older,
    lines_read: newer.lines_read + older.lines_read,
    matches: newer.matches + older.matches,
    levels: summed(newer.levels, older.levels, ({ level }) => level),
    sources: summed(newer.sources, older.sources, ({ source }) => source),
    deployments: summed(newer.deployments, older.deployments, ({ deployment_id: id }) => id).sort(
      (a, b) => b.count - a.count,
    ),
    histogram: mergeBars(older.histogram, newer.histogram),
  };
}

/** Adds lines that were followed after the search. */
export function countLines(counts: LogCounts, lines: readonly FoundLogEntry[]): LogCounts {
  const empty = { ...counts, lines_read: 0, matches: 0, levels: [], sources: [], deployments: [], histogram: [] };
  return lines.reduce((before: LogCounts, line) => {
    const at = new Date(Math.floor(Date.parse(line.timestamp) / counts.step_ms) * counts.step_ms).toISOString();
    const isError = line.level === "ERROR" || line.level === "CRITICAL";
    const isWarning = line.level === "WARNING";
    return mergeCounts(before, {
      ...{ ...empty, read_to: before.read_to, next_cursor: before.next_cursor, lines_read: 1, matches: 1 },
      levels: [{ level: line.level, count: 1 }],
      sources: [{ source: line.source, count: 1 }],
      deployments: [{ deployment_id: line.deployment_id, name: line.deployment_name, count: 1 }],
      histogram: [{ at, errors: +isError, warnings: +isWarning, others: +(!isError && !isWarning) }],
    });
  }, counts);
}

function summed<T extends { count: number }>(a: readonly T[], b: readonly T[], keyOf: (one: T) => string): T[] {
  const all = new Map<string, T>();
  for (const one of [...a, ...b]) {
    const key = keyOf(one);
    all.set(key, { ...one, count: one.count + (all.get(key)?.count ?? 0) });
  }
  return [...all.values()];
}

type Bar = LogCounts["histogram"][number];

function mergeBars(a: readonly Bar[], b: readonly Bar[]): Bar[] {
  const all = new Map<string, Bar>();
  for (const bar of [...a, ...b]) {
    const before = all.get(bar.at) ?? { at: bar.at, errors: 0, warnings: 0, others: 0 };
    all.set(bar.at, {
      at: bar.at,
      errors: before.errors + bar.errors,
      warnings: before.warnings + bar.warnings,
      others: before.others + bar.others,
    });
  }
  return [...all.values()].sort((x, y) => x.at.localeCompare(y.at));
}
