import type { LogQuery } from "../../domain/log-query.ts";
import type { Db } from "../engine/database.ts";
import { isUuid } from "../engine/is-uuid.ts";
import { sql } from "../engine/sql.ts";
import { type LogEntryRow, logLevels } from "./log-entries.ts";

/** A line, in the order of searches: by time, then by id. */
export interface LogPosition {
  atMs: number;
  id: number;
}

/** The query with the deployments that it names, as ids. */
export type ResolvedLogQuery = Omit<LogQuery, "deployments"> & {
  /** null: all. */
  deploymentIds: string[] | null;
  notDeploymentIds: string[];
};

export interface LogStep {
  tenantId: string;
  query: ResolvedLogQuery;
  startAt: Date;
  /** Only lines before this position. */
  before: LogPosition;
  /** Lines to read at most. */
  lines: number;
  /** Reading ends with the line that fills this number of bytes. At least one line is read. */
  bytes: number;
  /** Matching lines to return. The newest ones. */
  limit: number;
  /** Length of the intervals in which matching lines are counted. null: nothing is counted. */
  stepMs: number | null;
}

export interface FoundLogRow extends Omit<LogEntryRow, "logged_at"> {
  at_ms: number;
  kind: "build" | "deploy";
  deployment_id: string;
  deployment_name: string;
  revision_number: number | null;
}

/** Matching lines of one level, source, deployment and interval. */
export interface LogCountRow {
  level: number;
  kind: "build" | "deploy";
  deployment_id: string;
  name: string;
  /** Number of the interval, counted in steps from 1970. */
  step: number;
  count: number;
}

export interface LogStepResult {
  /** Lines that were read. */
  read: number;
  /** Whether the start of the range was reached. */
  isWhole: boolean;
  /** Last line that was read. */
  last: LogPosition | null;
  matches: number;
  found: FoundLogRow[];
  counts: LogCountRow[];
}

type StepRow = Omit<LogStepResult, "last" | "isWhole"> & {
  candidates: number;
  last_ms: number | null;
  last_id: number | null;
};

const escapeLike = (text: string) => text.replaceAll(/[\\%_]/g, "\\$&");
const containing = (text: string) => `%${escapeLike(text.toLowerCase())}%`;

/** Returns the numbers among the values, and patterns of ids for the others. Eight digits can begin an id. */
function revisionsOf(values: readonly string[]): { numbers: number[]; ids: string[] } {
  const isNumber = (value: string) => /^\d{1,7}$/.test(value);
  const ids = values.filter((value) => !isNumber(value)).map((value) => `${escapeLike(value.toLowerCase())}%`);
  return { numbers: values.filter(isNumber).map(Number), ids };
}

/** Length of all texts that each message is searched for. It multiplies the time for a byte of a message. */
export const searchedLength = ({ texts, notTexts, runs }: ResolvedLogQuery): number =>
  [texts, notTexts, runs.any, runs.none].flat().reduce((sum, { length }) => sum + length, 0);

/**
 * Reads the newest lines before a position and returns those that match. It reads a bounded number of lines and bytes, however
 * few of them match, because the embedded database has one session and other statements wait for it.
 */
export async function searchLogStep(db: Db, step: LogStep): Promise<LogStepResult> {
  const { query, before } = step;
  const levels = query.levels?.map((name) => logLevels[name]) ?? null;
  const anyRevision = revisionsOf(query.revisions.any);
  const noRevision = revisionsOf(query.revisions.none);
  const { rows } = await db.query<StepRow>(sql`
    with candidates as materialized (
      select id, deployment_id, revision_id, kind, replica_id, stream, level, logged_at, message
        from log_entries
       where tenant_id = ${step.tenantId} and logged_at >= ${step.startAt}
         and (logged_at, id) < (${new Date(before.atMs)}::timestamptz, ${before.id}::bigint)
       order by logged_at desc, id desc limit ${step.lines}
    ), scanned as materialized (
      select * from (
        select c.*, sum(octet_length(message)) over (order by logged_at desc, id desc rows unbounded preceding)
                    - octet_length(message) as bytes_before
          from candidates c) sized
       where bytes_before < ${step.bytes}
    ), matched as materialized (
      select s.* from scanned s
       where (${levels}::smallint[] is null or s.level = any(${levels}::smallint[]))
         and (${query.sources}::text[] is null or s.kind = any(${query.sources}::text[]))
         and (${query.streams}::text[] is null or s.stream = any(${query.streams}::text[]))
         and (${step.query.deploymentIds}::uuid[] is null or s.deployment_id = any(${step.query.deploymentIds}::uuid[]))
         and s.deployment_id <> all(${step.query.notDeploymentIds}::uuid[])
         and (${query.replicas.any.length === 0} or lower(s.replica_id) like any(${query.replicas.any.map(containing)}::text[]))
         and (${query.replicas.none.length === 0} or s.replica_id is null
              or not lower(s.replica_id) like any(${query.replicas.none.map(containing)}::text[]))
         and (${query.revisions.any.length === 0} or s.revision_id::text like any(${anyRevision.ids}::text[])
              or exists (select from revisions r where r.id = s.revision_id and r.number = any(${anyRevision.numbers}::int[])))
         and (${query.revisions.none.length === 0} or not (s.revision_id::text like any(${noRevision.ids}::text[])
              or exists (select from revisions r where r.id = s.revision_id and r.number = any(${noRevision.numbers}::int[]))))
         and (${query.texts.length === 0} or lower(s.message) like all(${query.texts.map(containing)}::text[]))
         and (${query.notTexts.length === 0} or not lower(s.message) like any(${query.notTexts.map(containing)}::text[]))
         and (${query.runs.any.length === 0} or lower(s.message) like any(${query.runs.any.map(containing)}::text[]))
         and (${query.runs.none.length === 0} or not lower(s.message) like any(${query.runs.none.map(containing)}::text[]))
    ), found as (
      select * from matched order by logged_at desc, id desc limit ${step.limit}
    ), counted as (
      select level, kind, deployment_id, floor(extract(epoch from logged_at) * 1000 / ${step.stepMs ?? 1}::float8)::bigint as step,
             count(*) as count
        from matched where ${step.stepMs !== null} group by 1, 2, 3, 4
    ), last as (
      select logged_at, id from scanned order by logged_at, id limit 1
    )
    select (select count(*) from scanned) as read,
           (select count(*) from candidates) as candidates,
           (select count(*) from matched) as matches,
           (select floor(extract(epoch from logged_at) * 1000)::bigint from last) as last_ms,
           (select id from last) as last_id,
           coalesce((select json_agg(json_build_object(
               'id', f.id, 'deployment_id', f.deployment_id, 'deployment_name', d.name, 'revision_id', f.revision_id,
               'revision_number', r.number, 'kind', f.kind, 'replica_id', f.replica_id, 'stream', f.stream, 'level', f.level,
               'at_ms', floor(extract(epoch from f.logged_at) * 1000)::bigint, 'message', f.message)
               order by f.logged_at desc, f.id desc)
             from found f join deployments d on d.id = f.deployment_id left join revisions r on r.id = f.revision_id), '[]') as found,
           coalesce((select json_agg(json_build_object('level', c.level, 'kind', c.kind, 'deployment_id', c.deployment_id,
               'name', d.name, 'step', c.step, 'count', c.count))
             from counted c join deployments d on d.id = c.deployment_id), '[]') as counts`);
  const row = rows[0] as (typeof rows)[number];
  const { read, candidates, matches, found, counts, last_ms: atMs, last_id: id } = row;
  const isWhole = candidates < step.lines && read === candidates;
  return { read, isWhole, matches, found, counts, last: atMs === null || id === null ? null : { atMs, id } };
}

/** Returns the deployments of a workspace with these names or ids. */
export async function findDeploymentsNamed(
  db: Db,
  tenantId: string,
  names: readonly string[],
): Promise<{ id: string; name: string }[]> {
  const { rows } = await db.query<{ id: string; name: string }>(sql`
    select id, name from deployments
     where tenant_id = ${tenantId} and (name = any(${names}::text[]) or id = any(${names.filter(isUuid)}::uuid[]))`);
  return rows;
}
