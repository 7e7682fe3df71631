import { finalStatuses } from "../../domain/revision-status.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { isUnsettled } from "../revisions/revisions.ts";

/** Rows that one statement deletes: about 0.1 s, so that no other session waits for a lock or a checkpoint. */
const batchRows = 5_000;

const dayMs = 86_400_000;

/** Deletes in batches until no rows are left or `signal` aborts. @returns how many rows were deleted. */
async function inBatches(deleteSome: () => Promise<bigint | number | undefined>, signal: AbortSignal): Promise<number> {
  let total = 0;
  while (!signal.aborted) {
    const count = Number((await deleteSome()) ?? 0);
    total += count;
    if (count < batchRows) break;
  }
  return total;
}

/** Tables whose rows are deleted by age alone, with the column of the age; each has an index. */
const dated = {
  /** Alerts that still fire have no such time. */
  alerts: "resolved_at",
  events: "created_at",
  /** Messages of code hosts; one that arrives again later finds nothing new. */
  host_deliveries: "received_at",
  idempotency_keys: "created_at",
  /** Images that a registry refuses to delete for so long. */
  image_removals: "created_at",
  metric_minutes: "at",
  /** Sign-ins: their end, or when they would have expired. */
  oauth_requests: "expires_at",
  oauth_token_events: "created_at",
  webhook_deliveries: "created_at",
} as const;

/** Deletes the rows of a table that are older than `days`. @returns how many. */
export function trimOlder(
  db: Db,
  table: keyof typeof dated,
  { days }: { days: number },
  signal: AbortSignal,
): Promise<number> {
  const before = new Date(db.now().getTime() - days * dayMs);
  return inBatches(async () => {
    const { rowCount } = await db.query(sql`
      delete from ${sql.identifier(table)} where ctid = any(array(
        select ctid from ${sql.identifier(table)} where ${sql.identifier(dated[table])} < ${before} limit ${batchRows}))`);
    return rowCount;
  }, signal);
}

/** Deletes rows of the audit log that are older than `days`. @returns how many. */
export function trimAuditLog(db: Db, { days }: { days: number }, signal: AbortSignal): Promise<number> {
  const before = new Date(db.now().getTime() - days * dayMs);
  return inBatches(async () => {
    // Ids are indexed and rise with time.
    const { rowCount } = await db.query(sql`
      delete from audit_log where id = any(array(
        select id from (select id, created_at from audit_log order by id limit ${batchRows}) oldest
         where created_at < ${before}))`);
    return rowCount;
  }, signal);
}

/**
 * Deletes agent log lines older than `days`, and all but the newest `linesMax` lines of each deployment. Build logs stay as
 * long as their revision. @returns how many lines.
 */
export async function trimLogEntries(
  db: Db,
  { days, linesMax }: { days: number; linesMax: number },
  signal: AbortSignal,
): Promise<number> {
  const before = new Date(db.now().getTime() - days * dayMs);
  const old = await inBatches(async () => {
    const { rowCount } = await db.query(sql`
      delete from log_entries where ctid = any(array(
        select ctid from log_entries where logged_at < ${before} and kind = 'deploy' limit ${batchRows}))`);
    return rowCount;
  }, signal);
  return old + (await trimLongLogs(db, linesMax, signal));
}

/** Deletes the log of a deployment before its row, because deleting the row would delete all the lines in one statement. */
export async function dropLogEntries(db: Db, deploymentId: string, signal: AbortSignal): Promise<void> {
  for (const kind of ["build", "deploy"]) {
    // Deleted rows stay in the index for a while. Starting after the last one avoids skipping them again in each batch.
    let after = 0;
    await inBatches(async () => {
      const { rows } = await db.query<{ count: number; last: number | null }>(sql`
        with gone as (
          delete from log_entries where id = any(array(
            select id from log_entries where deployment_id = ${deploymentId} and kind = ${kind} and id > ${after}
             order by id limit ${batchRows})) returning id
        ) select count(*) as count, max(id) as last from gone`);
      after = rows[0]?.last ?? after;
      return rows[0]?.count;
    }, signal);
  }
  signal.throwIfAborted();
}

/** Deletes reports of deleted deployments, which arrived while the row was deleted. @returns how many. */
export async function deleteOrphanedReports(db: Db): Promise<number> {
  const { rowCount } = await db.query(sql`
    delete from observations where deployment_id = any(array(
      select o.deployment_id from observations o
       where not exists (select from deployments d where d.id = o.deployment_id)))`);
  return rowCount;
}

/** Deployments checked per statement; each costs a scan of at most `linesMax` index entries. */
const deploymentsPage = 200;

async function trimLongLogs(db: Db, linesMax: number, signal: AbortSignal): Promise<number> {
  let total = 0;
  for await (const { id, lastId } of findLongLogs(db, linesMax, signal)) {
    total += await inBatches(async () => {
      const { rowCount } = await db.query(sql`
        delete from log_entries where id = any(array(
          select id from log_entries where deployment_id = ${id} and kind = 'deploy' and id <= ${lastId}
           order by id limit ${batchRows}))`);
      return rowCount;
    }, signal);
  }
  return total;
}

/** Finds deployments with more than `linesMax` agent log lines, with the id of the last line beyond the newest `linesMax`. */
export async function* findLongLogs(
  db: Db,
  linesMax: number,
  signal: AbortSignal,
): AsyncGenerator<{ id: string; lastId: number }, void, undefined> {
  let after = "00000000-0000-0000-0000-000000000000";
  while (!signal.aborted) {
    const { rows } = await db.query<{ id: string; last_doomed: number | null }>(sql`
      select d.id, (select id from log_entries where deployment_id = d.id and kind = 'deploy'
                     order by id desc offset ${linesMax} limit 1) as last_doomed
        from (select id from deployments where id > ${after} order by id limit ${deploymentsPage}) d order by d.id`);
    for (const { id, last_doomed } of rows) if (last_doomed !== null) yield { id, lastId: last_doomed };
    const last = rows.at(-1);
    if (last === undefined || rows.length < deploymentsPage) return;
    after = last.id;
  }
}

/** Deletes log lines by their ids. */
export async function deleteLogLines(db: Db, ids: number[]): Promise<void> {
  await db.query(sql`delete from log_entries where id = any(${ids}::bigint[])`);
}

/**
 * Deletes artifacts that no deployment needs any more. It keeps those of the `keptMax` newest revisions that have one, of
 * the active revision and of unsettled ones. A revision without its artifact is built again when it is redeployed. Listeners
 * remove the images that they built.
 * @returns how many artifacts.
 */
export async function dropSupersededArtifacts(db: Db, keptMax: number): Promise<number> {
  const { rowCount } = await db.query(sql`
    with ranked as (
      select r.id, r.artifact_id, r.status, r.id = d.active_revision_id as is_active,
             row_number() over (partition by r.deployment_id order by r.seq desc) as age
        from revisions r join deployments d on d.id = r.deployment_id where r.artifact_id is not null
    ), kept as (
      select distinct artifact_id from ranked
       where age <= ${keptMax} or is_active
          or status <> all(${finalStatuses}::text[])
    ), doomed as (
      select a.id from artifacts a
       where a.last_used_at < now() - interval '1 hour' and not exists (select 1 from kept k where k.artifact_id = a.id)
       limit ${batchRows}
    ), freed as (
      update revisions set artifact_id = null where artifact_id in (select id from doomed)
    ), unneeded as (
      insert into image_removals (listener_id, repository, reference)
      select l.id, split_part(a.manifest ->> 'uri', '@', 1), a.manifest ->> 'digest'
        from doomed d join artifacts a on a.id = d.id join listeners l on l.id = a.listener_id
      on conflict (listener_id, repository, reference) do nothing
    )
    delete from artifacts where id in (select id from doomed)`);
  return rowCount;
}

/** Returns which of these keys belong to an artifact, or to a revision that will produce it. */
export async function findKnownArtifactKeys(db: Db, keys: string[]): Promise<Set<string>> {
  const { rows } = await db.query<{ key: string }>(sql`
    select key from artifacts where key = any(${keys}::text[])
    union
    select coalesce(artifact_key, id::text) from revisions r
     where ${isUnsettled("r")} and coalesce(artifact_key, id::text) = any(${keys}::text[])`);
  return new Set(rows.map((row) => row.key));
}

/**
 * Marks uploads that no revision used within a day, whether unfinished or unused. From then on no revision can use them.
 * Their rows stay until their files are deleted, so that another server can continue if this one dies.
 * @returns their object paths.
 */
export async function retireUnusedUploads(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ object_path: string }>(sql`
    update uploads u set finished_at = null
     where u.created_at < now() - interval '1 day'
       and not exists (
         select 1 from revisions r where r.deployment_id = u.deployment_id
            and r.source_revision_config ->> 'source_tarball_path' = u.object_path)
    returning object_path`);
  return rows.map((row) => row.object_path);
}

/** Deletes the row of an upload whose file was deleted. */
export async function dropUpload(db: Db, objectPath: string): Promise<void> {
  await db.query(sql`delete from uploads where object_path = ${objectPath}`);
}
