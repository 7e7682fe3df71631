import { setTimeout as sleep } from "node:timers/promises";
import type { ReplicaLogLine } from "../../contract/listeners/assignment.ts";
import type { BuildLogLine } from "../../contract/listeners/build-order.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, recordColumns, selectList } from "../engine/table.ts";
import { logEntriesTable } from "./tables.ts";

/** Numbers, so that "at least WARNING" is a comparison. */
export const logLevels = { DEBUG: 10, INFO: 20, WARNING: 30, ERROR: 40, CRITICAL: 50 } as const;
export type LogLevelName = keyof typeof logLevels;

export interface NewLogEntry extends Omit<RowOf<typeof appended>, "level"> {
  level: LogLevelName;
}

export type LogEntryRow = Pick<
  RowOf<typeof logEntriesTable.columns>,
  "id" | "revision_id" | "replica_id" | "stream" | "level" | "logged_at" | "message"
>;

export interface LogFilter {
  deploymentId: string;
  /** null: all revisions of the deployment. */
  revisionId: string | null;
  kind: "build" | "deploy";
  order: "asc" | "desc";
  limit: number;
  /** Entries after this id in the chosen order; null: from the beginning. */
  afterId: number | null;
  levelMin: LogLevelName | null;
  /** Case-insensitive part of the message. */
  query: string | null;
  /** Part of the message, in the form in which agent servers write it. */
  runId?: string | null;
  startAt: Date | null;
  endAt: Date | null;
}

/**
 * Lines per statement. The embedded database has one session, in which all other statements wait for this one: 200 lines took
 * four times as long as 50, and no more lines arrive per second.
 */
const linesMaxOf: Record<Db["kind"], number> = { embedded: 50, postgres: 200 };

/** A sender without end gets half of the time: after a full statement it pauses for as long as the statement took, at most this long. */
const pauseMaxMs = 50;

/** Appends lines; they are durable when it resolves. Adds the deployment's tenant. */
export async function appendLogEntries(db: Db, entries: NewLogEntry[]): Promise<void> {
  const linesMax = linesMaxOf[db.kind];
  for (let from = 0; from < entries.length; from += linesMax)
    await append(db, entries.slice(from, from + linesMax), null);
}

/**
 * Appends lines from a data plane and ignores those of deployments that are not its own. A long stream pauses in between:
 * beside one that never ends, a line of another deployment took 3 to 6 times as long as alone, now 1.2 to 1.5 times.
 * @param signal ends the pauses, not the writing.
 */
export async function appendReplicaLog(
  db: Db,
  { listenerId, lines, signal }: { listenerId: string; lines: ReplicaLogLine[]; signal: AbortSignal },
): Promise<void> {
  const linesMax = linesMaxOf[db.kind];
  for (let from = 0; from < lines.length; from += linesMax) {
    const beganAt = performance.now();
    const some = lines.slice(from, from + linesMax);
    await append(db, some.map(entryOf), listenerId);
    if (some.length < linesMax || signal.aborted) continue;
    const pauseMs = Math.min(pauseMaxMs, performance.now() - beganAt);
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Appends lines of a build that a listener runs; they are durable when it resolves. */
export async function appendBuildLog(
  db: Db,
  {
    listenerId,
    lines,
    ids,
  }: { listenerId: string; lines: BuildLogLine[]; ids: { deployment_id: string; revision_id: string } },
): Promise<void> {
  const entries = lines.map(({ key, timestamp, stream, level, message }) => ({
    ...ids,
    kind: "build" as const,
    replica_id: null,
    ...{ stream, message, level: levelOf(level), logged_at: timeOf(timestamp), line_key: key },
  }));
  const linesMax = linesMaxOf[db.kind];
  for (let from = 0; from < entries.length; from += linesMax)
    await append(db, entries.slice(from, from + linesMax), listenerId);
}

const entryOf = (line: ReplicaLogLine): NewLogEntry => ({
  deployment_id: line.deployment_id,
  revision_id: line.revision_id,
  kind: "deploy",
  replica_id: line.replica_id,
  stream: line.stream,
  level: levelOf(line.level),
  logged_at: timeOf(line.timestamp),
  message: line.message,
  line_key: line.key,
});

const appended = pick(
  logEntriesTable,
  "deployment_id",
  "revision_id",
  "kind",
  "replica_id",
  "stream",
  "level",
  "logged_at",
  "message",
  "line_key",
);
const appendedRecord = recordColumns(appended);
const appendedColumns = selectList(appended);
const appendedValues = selectList(appended, "e");

async function append(db: Db, entries: NewLogEntry[], listenerId: string | null): Promise<void> {
  const rows = entries.map((entry) => ({
    ...entry,
    level: logLevels[entry.level],
    message: sanitizeText(entry.message),
  }));
  await db.query(sql`
    insert into log_entries (tenant_id, ${appendedColumns})
    select d.tenant_id, ${appendedValues}
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
        as e ${appendedRecord}
      join deployments d on d.id = e.deployment_id and (${listenerId}::uuid is null or d.listener_id = ${listenerId}::uuid)
    on conflict (deployment_id, line_key) where line_key is not null do nothing`);
  db.logSignal.notify(new Set(entries.map((entry) => entry.deployment_id)));
}

/** No clock of a machine needs more. A line of a later time would never be old enough to be deleted. */
const aheadMaxMs = 86_400_000;

/** Returns the time of a line. One that is invalid, before the year 1 or in the future becomes the time of arrival. */
function timeOf(text: string): Date {
  const [time, now] = [new Date(text), new Date()];
  return time.getUTCFullYear() >= 1 && time.getTime() <= now.getTime() + aheadMaxMs ? time : now;
}

function levelOf(text: string): LogLevelName {
  const upper = text.toUpperCase();
  if (upper in logLevels) return upper as LogLevelName;
  return upper === "WARN" ? "WARNING" : upper === "FATAL" ? "CRITICAL" : "INFO";
}

/** Bytes of messages of a page. Agents write lines of 64 KiB, and encoding 1,000 of them occupied the server for half a second. */
export const logPageBytesMax = 8 * 1024 * 1024;

export interface LogEntryPage {
  rows: LogEntryRow[];
  /** Whether the page ended at its number of lines or of bytes, so that more may follow. */
  isFull: boolean;
}

/**
 * Returns one page of a log. The id of an entry is its stable public id and its cursor.
 * @param bytesMax of the messages as JSON. The page ends before the line that exceeds it, but has at least one line.
 */
export async function readLogEntries(db: Db, filter: LogFilter, bytesMax = logPageBytesMax): Promise<LogEntryPage> {
  const conditions = [sql`kind = ${filter.kind}`];
  // Both: a listener names the revision of each line, and could name that of a deployment that is not its own.
  conditions.push(sql`deployment_id = ${filter.deploymentId}`);
  if (filter.revisionId !== null) conditions.push(sql`revision_id = ${filter.revisionId}`);
  if (filter.afterId !== null)
    conditions.push(filter.order === "asc" ? sql`id > ${filter.afterId}` : sql`id < ${filter.afterId}`);
  if (filter.levelMin !== null) conditions.push(sql`level >= ${logLevels[filter.levelMin]}`);
  if (filter.query !== null) conditions.push(sql`strpos(lower(message), lower(${filter.query})) > 0`);
  if (filter.runId) conditions.push(sql`strpos(message, ${filter.runId}) > 0`);
  if (filter.startAt !== null) conditions.push(sql`logged_at >= ${filter.startAt}`);
  if (filter.endAt !== null) conditions.push(sql`logged_at < ${filter.endAt}`);
  const order = filter.order === "asc" ? sql`id asc` : sql`id desc`;
  // Lengths are read without the messages, so that the database reads no more of them than the page has.
  const { rows } = await db.query<LogEntryRow>(sql`
    select id, revision_id, replica_id, stream, level, logged_at, message
      from (select page.*, sum(octet_length(message)) over (order by ${order} rows unbounded preceding)
                         - octet_length(message) as bytes_before
              from (select id, revision_id, replica_id, stream, level, logged_at, message from log_entries
                     where ${sql.join(conditions, " and ")} order by ${order} limit ${filter.limit}) page) sized
     where bytes_before < ${bytesMax} order by ${order}`);
  return withinBytes(rows, { limit: filter.limit, bytesMax });
}

/** Control characters take six times their size in JSON. */
function withinBytes(rows: LogEntryRow[], { limit, bytesMax }: { limit: number; bytesMax: number }): LogEntryPage {
  let bytes = 0;
  let count = 0;
  for (const { message } of rows) {
    bytes += Buffer.byteLength(JSON.stringify(message));
    if (count > 0 && bytes > bytesMax) break;
    count += 1;
  }
  return { rows: rows.slice(0, count), isFull: rows.length === limit || bytes > bytesMax };
}

/** Returns the ids of the last lines of a deployment's logs; 0: the log is empty. */
export async function findLastLogIds(db: Db, deploymentId: string): Promise<Record<LogFilter["kind"], number>> {
  const { rows } = await db.query<{ build: number | null; deploy: number | null }>(sql`
    select (select max(id) from log_entries where deployment_id = ${deploymentId} and kind = 'build') as build,
           (select max(id) from log_entries where deployment_id = ${deploymentId} and kind = 'deploy') as deploy`);
  return { build: rows[0]?.build ?? 0, deploy: rows[0]?.deploy ?? 0 };
}
