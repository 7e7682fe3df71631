import { sql } from "kysely";
import type { Db } from "./database.ts";

/** Numbers so that "at least WARNING" is a comparison. */
export const logLevels = { DEBUG: 10, INFO: 20, WARNING: 30, ERROR: 40, CRITICAL: 50 } as const;
export type LogLevelName = keyof typeof logLevels;

export interface NewLogEntry {
  tenant_id: string;
  deployment_id: string;
  revision_id: string;
  kind: "build" | "deploy";
  replica_id: string | null;
  stream: string;
  level: LogLevelName;
  logged_at: Date;
  message: string;
  /** Unique within the deployment; a line that arrives again under its key is dropped. */
  line_key: string | null;
}

export interface LogEntryRow {
  id: number;
  revision_id: string;
  replica_id: string | null;
  stream: string;
  level: number;
  logged_at: Date;
  message: string;
}

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
  startAt: Date | null;
  endAt: Date | null;
}

/** Appends lines in one statement, durable when it resolves. NUL characters, which PostgreSQL refuses, are dropped. */
export async function appendLogEntries(db: Db, entries: NewLogEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const rows = entries.map((entry) => ({
    ...entry,
    level: logLevels[entry.level],
    message: entry.message.replaceAll("\u0000", ""),
  }));
  await sql`
    insert into log_entries (tenant_id, deployment_id, revision_id, kind, replica_id, stream, level, logged_at, message, line_key)
    select e.tenant_id, e.deployment_id, e.revision_id, e.kind, e.replica_id, e.stream, e.level, e.logged_at, e.message, e.line_key
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
        as e (tenant_id uuid, deployment_id uuid, revision_id uuid, kind text, replica_id text, stream text, level smallint,
              logged_at timestamptz, message text, line_key text)
      join deployments d on d.id = e.deployment_id
    on conflict (deployment_id, line_key) where line_key is not null do nothing`.execute(db.kysely);
}

/** One page of a log; the id of an entry is its stable public id and its cursor. */
export async function readLogEntries(db: Db, filter: LogFilter): Promise<LogEntryRow[]> {
  const conditions = [sql`kind = ${filter.kind}`];
  conditions.push(
    filter.revisionId === null ? sql`deployment_id = ${filter.deploymentId}` : sql`revision_id = ${filter.revisionId}`,
  );
  if (filter.afterId !== null)
    conditions.push(filter.order === "asc" ? sql`id > ${filter.afterId}` : sql`id < ${filter.afterId}`);
  if (filter.levelMin !== null) conditions.push(sql`level >= ${logLevels[filter.levelMin]}`);
  if (filter.query !== null) conditions.push(sql`strpos(lower(message), lower(${filter.query})) > 0`);
  if (filter.startAt !== null) conditions.push(sql`logged_at >= ${filter.startAt}`);
  if (filter.endAt !== null) conditions.push(sql`logged_at <= ${filter.endAt}`);
  const order = filter.order === "asc" ? sql`id asc` : sql`id desc`;
  const { rows } = await sql<LogEntryRow>`
    select id, revision_id, replica_id, stream, level, logged_at, message from log_entries
     where ${sql.join(conditions, sql` and `)} order by ${order} limit ${filter.limit}`.execute(db.kysely);
  return rows;
}
