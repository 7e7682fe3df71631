import type { LogEntry, LogType } from "../../contract/logs/log.ts";
import { type LogEntryRow, logLevels } from "../../store/logs/log-entries.ts";

/** Returns the wire shape of a log line (contract 3.4). */
export function logEntryOf(row: LogEntryRow, kind: LogType): LogEntry {
  return {
    id: String(row.id),
    timestamp: row.logged_at.toISOString(),
    level: levelNameOf(row.level),
    message: row.message,
    source: kind,
    revision_id: row.revision_id,
    replica: row.replica_id,
    stream: row.stream === "stdout" || row.stream === "stderr" ? row.stream : null,
    run_id: null,
  };
}

const levelNames = new Map<number, string>(Object.entries(logLevels).map(([name, level]) => [level, name]));

export const levelNameOf = (level: number): string => levelNames.get(level) ?? "INFO";
