import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { logLinesKeptMax } from "../../domain/limits.ts";
import type { Db } from "../../store/engine/database.ts";
import { logLevels } from "../../store/logs/log-entries.ts";
import { dayOf, moveOldLines, type OldLines } from "../../store/maintenance/log-archive.ts";

/** Where the log lines of agents go that leave the database. */
export interface LogArchive {
  /**
   * Stores a file, or replaces one of that name.
   * @param name `DAY/DEPLOYMENT/FIRST_LINE.jsonl.gz`
   */
  put(name: string, content: Buffer, signal: AbortSignal): Promise<void>;
  /** Deletes the files of the days before one, and returns how many files or days. */
  removeBefore(day: string, signal: AbortSignal): Promise<number>;
}

/** Limit for storing one file. */
const putTimeoutMs = 60_000;

const dayMs = 86_400_000;

/**
 * Moves agent log lines from the database into the archive: whole days in UTC that are older than `days`, so that a deployment has
 * few files a day, and what exceeds a deployment's limit of lines. @returns how many lines.
 */
export function archiveLogLines(
  db: Db,
  archive: LogArchive,
  { days }: { days: number },
  signal: AbortSignal,
): Promise<number> {
  const before = new Date(`${dayOf(new Date(db.now().getTime() - days * dayMs))}T00:00:00Z`);
  const keep = async (old: OldLines) => {
    const [first] = old.lines;
    const name = `${dayOf(first.logged_at)}/${old.deploymentId}/${first.id}.jsonl.gz`;
    const ending = AbortSignal.any([signal, AbortSignal.timeout(putTimeoutMs)]);
    await archive.put(name, await promisify(gzip)(textOf(old)), ending);
  };
  return moveOldLines(db, { before, linesMax: logLinesKeptMax }, keep, signal);
}

/** Deletes archived lines that are older than `days`. @returns how many files or days. */
export function trimLogArchive(
  db: Db,
  archive: LogArchive,
  { days }: { days: number },
  signal: AbortSignal,
): Promise<number> {
  return archive.removeBefore(dayOf(new Date(db.now().getTime() - days * dayMs)), signal);
}

const levelNames = new Map(Object.entries(logLevels).map(([name, level]) => [level as number, name]));

const textOf = ({ deploymentId, lines }: OldLines): string =>
  lines
    .map(({ id, revision_id, replica_id, stream, level, logged_at, message }) => {
      const timestamp = logged_at.toISOString();
      const levelName = levelNames.get(level) ?? "INFO";
      const ids = { id: String(id), deployment_id: deploymentId, revision_id, replica_id };
      return `${JSON.stringify({ ...ids, timestamp, level: levelName, stream, message })}\n`;
    })
    .join("");
