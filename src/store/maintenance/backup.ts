import { type FileHandle, mkdir, open, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Db, Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { isUnsettled } from "../revisions/revisions.ts";
import { type AuditNote, audited } from "../tenants/audit.ts";

/** The description of a backup: `manifest.json` beside the tables. */
export interface BackupManifest {
  format: 1;
  /** Version of the program that made it. */
  version: string;
  madeAt: string;
  /** Migrations of its tables: the tables are loaded in that state, then brought up to date. */
  migrations: string[];
  /** The migrations among them that a program can work without; absent in backups of earlier versions. */
  additive?: string[];
  /** Rows by table. */
  rows: Record<string, number>;
}

/** Tables that a backup omits, with the reason: their rows concern one moment or one process, or are recreated. */
const omittedTables: Record<string, string> = {
  schema_migrations: "the manifest names them",
  github_app_links: "pages that people have open",
  device_logins: "logins in progress",
  idempotency_keys: "saved responses of the last day",
  installation_links: "pages that people have open",
  leases: "held by processes",
  clock: "of the database's machine",
  metric_minutes: "charts of the last days, by far the most rows",
  oauth_requests: "sign-ins in progress",
  picker_sessions: "pages that people have open",
  reconcile_queue: "the restore enqueues every deployment",
  sessions: "of browsers",
  sign_ins: "sign-ins in progress",
};

/** Tables of which only the rows that meet a condition are included. */
const partialTables: Record<string, string> = {
  // Agent logs are only useful for days, and may be larger than everything else.
  log_entries: "kind <> 'deploy'",
};

/** Rows per statement: about 2 MB, and at most 100 MB of rows that users fill. PostgreSQL takes at most 256 MB of JSON at once. */
const pageRowsOf = (table: string) => (table === "secret_sets" || table === "variable_groups" ? 50 : 1_000);

/** In a table that is included in part, the next row may lie behind a hundred million skipped ones. */
const pageTimeoutMs = 300_000;

/** Bytes per read of a file, so that a row of 1 MiB is joined from few pieces. */
const readBytes = 1024 * 1024;

const manifestName = "manifest.json";

const tableFile = (directory: string, table: string) => path.join(directory, "tables", `${table}.jsonl`);

/**
 * Writes all tables, as of one moment, into a directory: `manifest.json`, and `tables/<name>.jsonl` with one row as JSON per
 * line. Sealed values stay sealed. The embedded database serves no other statements meanwhile.
 *
 * @returns also the files of uploads that belong to it, relative to the data directory.
 */
export async function writeBackup(
  db: Db,
  directory: string,
  { version, signal }: { version: string; signal: AbortSignal },
): Promise<{ manifest: BackupManifest; uploads: string[] }> {
  await mkdir(path.join(directory, "tables"), { recursive: true, mode: 0o700 });
  const read = async (trx: Trx) => {
    await trx.query(sql`set transaction isolation level repeatable read, read only`);
    const rows: Record<string, number> = {};
    for (const table of await listTables(trx)) {
      if (table in omittedTables) continue;
      rows[table] = await writeTable(trx, directory, table, signal);
    }
    const applied = await trx.query<{ name: string; additive: boolean }>(sql`
      select name, additive from schema_migrations order by number`);
    const uploads = await trx.query<{ object_path: string }>(sql`
      select object_path from uploads where finished_at is not null`);
    return { rows, applied: applied.rows, uploads: uploads.rows };
  };
  const made = await db.transaction(read, { timeoutMs: pageTimeoutMs });
  const { rows, applied } = made;
  const migrations = applied.map(({ name }) => name);
  const additive = applied.flatMap((one) => (one.additive ? [one.name] : []));
  const manifest: BackupManifest = { format: 1, version, madeAt: new Date().toISOString(), migrations, additive, rows };
  await writeFile(path.join(directory, manifestName), `${JSON.stringify(manifest, null, 2)}\n`);
  return { manifest, uploads: made.uploads.map(({ object_path }) => object_path) };
}

/** Writes a row to the audit log of each organization, before the backup is returned to the caller. */
export async function auditBackup(db: Db, actor: string, { madeAt }: BackupManifest): Promise<void> {
  const note = { actor, action: "installation.backup", details: { made_at: madeAt } };
  await db.transaction((trx) => auditAllOrganizations(trx, note));
}

async function writeTable(trx: Trx, directory: string, table: string, signal: AbortSignal): Promise<number> {
  const condition = sql.raw(partialTables[table] ?? "true");
  await trx.query(sql`declare backup_rows no scroll cursor for
    select row_to_json(t)::text as row from ${sql.identifier(table)} t where ${condition}`);
  const pageRows = pageRowsOf(table);
  const file = await open(tableFile(directory, table), "w", 0o600);
  try {
    let written = 0;
    while (true) {
      signal.throwIfAborted();
      const { rows } = await trx.query<{ row: string }>(sql`fetch ${sql.literal(pageRows)} from backup_rows`);
      if (rows.length > 0) await file.appendFile(`${rows.map(({ row }) => row).join("\n")}\n`);
      written += rows.length;
      if (rows.length < pageRows) break;
    }
    await trx.query(sql`close backup_rows`);
    return written;
  } finally {
    await file.close();
  }
}

async function listTables(trx: Trx): Promise<string[]> {
  const { rows } = await trx.query<{ name: string }>(sql`
    select c.relname as name from pg_class c
     where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace order by c.relname`);
  return rows.map(({ name }) => name);
}

/** Returns the manifest. @throws Error when the directory is not a backup, or has another format. */
export async function readManifest(directory: string): Promise<BackupManifest> {
  const text = await readFile(path.join(directory, manifestName), "utf8").catch(() => "null");
  const manifest = JSON.parse(text) as BackupManifest | null;
  if (manifest?.format === 1) return manifest;
  throw new Error(
    manifest === null
      ? "this is not a Pierhead backup: it has no manifest.json"
      : `the backup has format ${manifest.format}, made by version ${manifest.version}: restore it with that version`,
  );
}

/** Returns whether no server has ever used this database. */
export async function isFresh(db: Db): Promise<boolean> {
  const { rows } = await db.query<{ found: string | null }>(sql`
    select to_regclass('schema_migrations')::text as found`);
  return rows[0]?.found === null;
}

/**
 * Loads what `writeBackup` wrote into empty tables at the migrations of the manifest. Foreign keys are checked once all rows
 * are loaded. Unknown columns are ignored.
 * @param options.leavesOutUnknown also ignores unknown tables: a newer version had added them before this one was rolled back.
 * @throws Error when a file contains a different number of rows than the manifest says, or a row does not fit.
 */
export async function loadBackup(
  db: Db,
  directory: string,
  manifest: BackupManifest,
  { leavesOutUnknown = false } = {},
): Promise<void> {
  await db.transaction(async (trx) => {
    const keys = await dropForeignKeys(trx);
    const known = new Set(await listTables(trx));
    for (const [table, expected] of Object.entries(manifest.rows)) {
      if (!known.has(table) && leavesOutUnknown) continue;
      if (!known.has(table)) throw new Error(`the backup has an unknown table: ${table}`);
      const loaded = await loadTable(trx, directory, table);
      if (loaded !== expected)
        throw new Error(`the backup has ${loaded} rows of ${table}, but its manifest says ${expected}`);
    }
    for (const add of keys) await trx.query(sql.raw(add));
    await moveSequences(trx);
  });
}

/** Drops the foreign keys. @returns the statements that create them again. */
async function dropForeignKeys(trx: Trx): Promise<string[]> {
  const { rows } = await trx.query<{ place: string; name: string; definition: string }>(sql`
    select conrelid::regclass::text as place, quote_ident(conname) as name, pg_get_constraintdef(oid) as definition
      from pg_constraint where contype = 'f' and connamespace = current_schema()::regnamespace
     order by 1, 2`);
  for (const { place, name } of rows) await trx.query(sql.raw(`alter table ${place} drop constraint ${name}`));
  return rows.map(({ place, name, definition }) => `alter table ${place} add constraint ${name} ${definition}`);
}

async function loadTable(trx: Trx, directory: string, table: string): Promise<number> {
  const file = await open(tableFile(directory, table), "r");
  try {
    // A migration may have inserted a first row.
    await trx.query(sql`delete from ${sql.identifier(table)}`);
    let loaded = 0;
    for await (const lines of pagesOf(file, pageRowsOf(table))) {
      await trx.query(sql`insert into ${sql.identifier(table)} overriding system value
        select * from jsonb_populate_recordset(null::${sql.identifier(table)}, ${`[${lines.join(",")}]`}::jsonb)`);
      loaded += lines.length;
    }
    return loaded;
  } finally {
    await file.close();
  }
}

async function* pagesOf(file: FileHandle, pageRows: number): AsyncGenerator<string[]> {
  let lines: string[] = [];
  for await (const line of linesOf(file)) {
    lines.push(line);
    if (lines.length < pageRows) continue;
    yield lines;
    lines = [];
  }
  if (lines.length > 0) yield lines;
}

/** Splits at newlines only: `readLines` also splits at U+2028 and U+2029, which JSON strings may contain. */
async function* linesOf(file: FileHandle): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of file.createReadStream({ encoding: "utf8", autoClose: false, highWaterMark: readBytes })) {
    const lines = `${rest}${chunk}`.split("\n");
    rest = lines.pop() as string;
    yield* lines;
  }
  if (rest !== "") yield rest;
}

/**
 * How far numbers are advanced, so that no number assigned after the backup is assigned again: a client that remembers the
 * number of an event or a log line asks for what came later. No installation assigns so many between two backups.
 */
const numbersSkipped = 1_000_000_000;

async function moveSequences(trx: Trx): Promise<void> {
  const { rows } = await trx.query<{ table: string; column: string }>(sql`
    select table_name as "table", column_name as "column" from information_schema.columns
     where table_schema = current_schema() and is_identity = 'YES'`);
  for (const { table, column } of rows) {
    await trx.query(sql`select setval(pg_get_serial_sequence(${table}, ${column}),
      (select coalesce(max(${sql.identifier(column)}), 0) + ${numbersSkipped} from ${sql.identifier(table)}))`);
  }
}

/**
 * Makes a loaded backup live, at a later moment and perhaps on another machine. Listeners start new sessions and receive all
 * assignments again, unfinished work restarts, and every deployment is enqueued. Each deployment that was built here and has
 * no work in progress is redeployed, because its artifact may be gone; if it is not, it is used again.
 *
 * @returns how many are redeployed.
 */
export async function activateRestored(db: Db, { madeAt }: BackupManifest): Promise<number> {
  return db.transaction(async (trx) => {
    const run = (statement: Sql) => trx.query(statement);
    // Above every epoch and position that a listener received after the backup.
    await run(sql`update listeners set epoch = epoch + ${numbersSkipped}, rv = rv + ${numbersSkipped},
      session_id = null, lease_until = null`);
    await run(sql`update assignments set rv = rv + ${numbersSkipped}, generation = generation + ${numbersSkipped}`);
    await run(restarted);
    const { rowCount } = await run(redeployed);
    await auditAllOrganizations(trx, { actor: "system", action: "installation.restore", details: { made_at: madeAt } });
    await run(sql`insert into reconcile_queue (deployment_id, run_at) select id, now() from deployments`);
    return rowCount;
  });
}

/** Writes an audit row for every organization, because a backup contains data of all of them. */
async function auditAllOrganizations(trx: Trx, note: AuditNote): Promise<void> {
  const { rows } = await trx.query<{ id: string; name: string }>(sql`select id, name from organizations`);
  for (const { id, name } of rows) {
    await trx.query(audited({ organizationId: id, workspaceId: null, id, name }, note));
  }
}

/** Enough to resolve a source and to create databases while everything else restarts as well. */
const creatingDeadline = sql`now() + interval '15 minutes'`;

/**
 * Resolves unfinished revisions again, in their order, because their artifact may be gone and so is the server that built it.
 * The transition table allows CREATING from every unfinished status by way of UNKNOWN.
 */
const restarted = sql`
  with before as (
    select r.id, r.status from revisions r join deployments d on d.id = r.deployment_id
     where ${isUnsettled("r")} and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')
  ), begun as (
    update revisions r set status = 'CREATING', status_since = now(), updated_at = now(), deadline_at = ${creatingDeadline}
      from before b where r.id = b.id
    returning r.tenant_id, r.deployment_id, r.id, b.status as old
  ), notified as (
    insert into events (tenant_id, deployment_id, revision_id, kind, data)
    select tenant_id, deployment_id, id, 'revision.status',
           jsonb_build_object('from', old, 'to', 'CREATING', 'because', 'restored from a backup', 'message', null)
      from begun where old <> 'CREATING'
  )
  delete from builds where revision_id in (select id from before)`;

/** Redeploys, as a request would, every deployment that serves an artifact built here and has no work in progress. */
const redeployed = sql`
  with again as (
    select gen_random_uuid() as new_id, r.* from deployments d join revisions r on r.id = d.active_revision_id
     where r.source <> 'external_docker' and d.status in ('READY', 'UNUSED', 'UNKNOWN')
       and not exists (select from revisions n where n.deployment_id = d.id and ${isUnsettled("n")})
  ), made as (
    insert into revisions (id, tenant_id, deployment_id, status, deadline_at, source, source_config,
      source_revision_config, secret_set_id, secret_references, sizes, artifact_id, artifact_key, redeploy_of,
      triggered_by, tracked_packages, reason, made_by, commit_message, commit_author, number)
    select new_id, tenant_id, deployment_id, 'CREATING', ${creatingDeadline}, source, source_config,
           source_revision_config, secret_set_id, secret_references, sizes, artifact_id, artifact_key, id,
           'system', tracked_packages, 'system', 'system', commit_message, commit_author,
           (select max(n.number) + 1 from revisions n where n.deployment_id = again.deployment_id)
      from again
  ), variables as (
    insert into revision_variables (revision_id, own_secret_set_id, groups)
    select a.new_id, v.own_secret_set_id, v.groups from again a join revision_variables v on v.revision_id = a.id
  ), notified as (
    insert into events (tenant_id, deployment_id, revision_id, kind, data)
    select tenant_id, deployment_id, new_id, 'revision.created', '{"triggered_by": "system"}' from again
  )
  update deployments d set latest_revision_id = a.new_id, updated_at = now() from again a where d.id = a.deployment_id`;
