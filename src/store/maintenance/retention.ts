import { sql } from "kysely";
import { finalStatuses } from "../../domain/revision-status.ts";
import type { Db } from "../engine/database.ts";
import { isUnsettled } from "../revisions/revisions.ts";

/** Rows that one statement deletes: about 0.1 s, so that nobody waits for a lock or a checkpoint. */
const batchRows = 5_000;

const dayMs = 86_400_000;

/** Deletes batch by batch until nothing more is found or `signal` aborts. @returns how many rows went. */
async function inBatches(deleteSome: () => Promise<bigint | number | undefined>, signal: AbortSignal): Promise<number> {
  let total = 0;
  while (!signal.aborted) {
    const count = Number((await deleteSome()) ?? 0);
    total += count;
    if (count < batchRows) break;
  }
  return total;
}

/** What is forgotten by its age alone, by the column that tells it; each has an index. */
const dated = {
  events: "created_at",
  /** Messages of code hosts; one that comes again later finds nothing new to look at. */
  host_deliveries: "received_at",
  idempotency_keys: "created_at",
  metric_minutes: "at",
  /** Sign-ins: when they ended, or could have. */
  oauth_requests: "expires_at",
  oauth_token_events: "created_at",
  webhook_deliveries: "created_at",
} as const;

/** Forgets the rows of a table that are older than this many days. @returns how many. */
export function trimOlder(
  db: Db,
  table: keyof typeof dated,
  { days }: { days: number },
  signal: AbortSignal,
): Promise<number> {
  const before = new Date(db.now().getTime() - days * dayMs);
  return inBatches(async () => {
    const { numAffectedRows } = await sql`
      delete from ${sql.table(table)} where ctid = any(array(
        select ctid from ${sql.table(table)} where ${sql.ref(dated[table])} < ${before} limit ${batchRows}))`.execute(
      db.kysely,
    );
    return numAffectedRows;
  }, signal);
}

/** Forgets changes in the audit log older than this. @returns how many. */
export function trimAuditLog(db: Db, { days }: { days: number }, signal: AbortSignal): Promise<number> {
  const before = new Date(db.now().getTime() - days * dayMs);
  return inBatches(async () => {
    // Rows are in order of time by their id, which has the index.
    const { numAffectedRows } = await sql`
      delete from audit_log where id = any(array(
        select id from (select id, created_at from audit_log order by id limit ${batchRows}) oldest
         where created_at < ${before}))`.execute(db.kysely);
    return numAffectedRows;
  }, signal);
}

/**
 * Forgets what agents logged longer ago than `days`, and of each deployment all but its newest `linesMax` lines. Build
 * logs stay as long as their revision. @returns how many lines.
 */
export async function trimLogEntries(
  db: Db,
  { days, linesMax }: { days: number; linesMax: number },
  signal: AbortSignal,
): Promise<number> {
  const before = new Date(db.now().getTime() - days * dayMs);
  const old = await inBatches(async () => {
    const { numAffectedRows } = await sql`
      delete from log_entries where ctid = any(array(
        select ctid from log_entries where logged_at < ${before} and kind = 'deploy' limit ${batchRows}))`.execute(
      db.kysely,
    );
    return numAffectedRows;
  }, signal);
  return old + (await trimLongLogs(db, linesMax, signal));
}

/** Forgets the log of a deployment, before its row: with that, all that is left of it would go in one statement. */
export async function dropLogEntries(db: Db, deploymentId: string, signal: AbortSignal): Promise<void> {
  for (const kind of ["build", "deploy"]) {
    // What went stays in the index for a while: it is passed over once, and not by each batch again.
    let after = 0;
    await inBatches(async () => {
      const { rows } = await sql<{ count: number; last: number | null }>`
        with gone as (
          delete from log_entries where id = any(array(
            select id from log_entries where deployment_id = ${deploymentId} and kind = ${kind} and id > ${after}
             order by id limit ${batchRows})) returning id
        ) select count(*) as count, max(id) as last from gone`.execute(db.kysely);
      after = rows[0]?.last ?? after;
      return rows[0]?.count;
    }, signal);
  }
  signal.throwIfAborted();
}

/** Forgets what was reported of deployments that are gone: a report that came as the row went. @returns how many. */
export async function dropReportsOfGone(db: Db): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from observations where deployment_id = any(array(
      select o.deployment_id from observations o
       where not exists (select from deployments d where d.id = o.deployment_id)))`.execute(db.kysely);
  return Number(numAffectedRows ?? 0);
}

/** Deployments that are looked at in one statement; each costs a walk over at most `linesMax` entries of an index. */
const deploymentsPage = 200;

async function trimLongLogs(db: Db, linesMax: number, signal: AbortSignal): Promise<number> {
  let total = 0;
  let after = "00000000-0000-0000-0000-000000000000";
  while (!signal.aborted) {
    const { rows } = await sql<{ id: string; last_doomed: number | null }>`
      select d.id, (select id from log_entries where deployment_id = d.id and kind = 'deploy'
                     order by id desc offset ${linesMax} limit 1) as last_doomed
        from (select id from deployments where id > ${after} order by id limit ${deploymentsPage}) d order by d.id`.execute(
      db.kysely,
    );
    for (const { id, last_doomed } of rows) {
      if (last_doomed === null) continue;
      total += await inBatches(async () => {
        const { numAffectedRows } = await sql`
          delete from log_entries where id = any(array(
            select id from log_entries where deployment_id = ${id} and kind = 'deploy' and id <= ${last_doomed}
             order by id limit ${batchRows}))`.execute(db.kysely);
        return numAffectedRows;
      }, signal);
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < deploymentsPage) break;
    after = last.id;
  }
  return total;
}

/**
 * Forgets the artifacts no deployment needs any more: it keeps those of its `keptMax` newest revisions that have one,
 * of the active one, and of all that are not settled. A revision without an artifact is built again when it is asked
 * for. @returns how many artifacts.
 */
export async function dropSupersededArtifacts(db: Db, keptMax: number): Promise<number> {
  const { numAffectedRows } = await sql`
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
    )
    delete from artifacts where id in (select id from doomed)`.execute(db.kysely);
  return Number(numAffectedRows ?? 0);
}

/** Which of these keys belong to an artifact, or to a revision on its way to one. */
export async function findKnownArtifactKeys(db: Db, keys: string[]): Promise<Set<string>> {
  const { rows } = await sql<{ key: string }>`
    select key from artifacts where key = any(${keys}::text[])
    union
    select coalesce(artifact_key, id::text) from revisions r
     where ${isUnsettled("r")} and coalesce(artifact_key, id::text) = any(${keys}::text[])`.execute(db.kysely);
  return new Set(rows.map((row) => row.key));
}

/**
 * Uploads that nobody made a revision of within a day: those that broke off, and those that were left. Nobody can make one of
 * them any more; their rows stay until their files are gone, so that a server that dies in between is followed.
 * @returns their object paths.
 */
export async function setUnusedUploadsAside(db: Db): Promise<string[]> {
  const { rows } = await sql<{ object_path: string }>`
    update uploads u set finished_at = null
     where u.created_at < now() - interval '1 day'
       and not exists (
         select 1 from revisions r where r.deployment_id = u.deployment_id
            and r.source_revision_config ->> 'source_tarball_path' = u.object_path)
    returning object_path`.execute(db.kysely);
  return rows.map((row) => row.object_path);
}

/** Its file is gone. */
export async function dropUpload(db: Db, objectPath: string): Promise<void> {
  await sql`delete from uploads where object_path = ${objectPath}`.execute(db.kysely);
}
