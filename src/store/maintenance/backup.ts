import { type FileHandle, mkdir, open, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { type RawBuilder, sql } from "kysely";
import type { Db, Trx } from "../engine/database.ts";
import { isUnsettled } from "../revisions/revisions.ts";
import { type AuditNote, audited } from "../tenants/audit.ts";

/** What a backup says of itself: `manifest.json` beside the tables. */
export interface BackupManifest {
  format: 1;
  /** Of the program that made it. */
  version: string;
  madeAt: string;
  /** Names of the migrations its tables have: they are loaded as they were, then brought up to date. */
  migrations: string[];
  /** Those of them without which a program can do; absent in backups of earlier versions. */
  additive?: string[];
  /** Rows by table. */
  rows: Record<string, number>;
}

/** What a backup leaves out: what concerns one moment or one process, and what is made anew. */
const leftOut: Record<string, string> = {
  schema_migrations: "the manifest names them",
  github_app_links: "pages that people have open",
  idempotency_keys: "answers to requests of the last day",
  installation_links: "pages that people have open",
  leases: "of processes",
  clock: "of the database's machine",
  metric_minutes: "charts of the last days, by far the most rows",
  oauth_requests: "sign-ins under way",
  picker_sessions: "pages that people have open",
  reconcile_queue: "every deployment is put there anew",
  sessions: "of browsers",
  sign_ins: "sign-ins under way",
};

/** Of these, only the rows that a condition names. */
const partly: Record<string, string> = {
  // What agents logged is for the days after it, and may be larger than all the rest.
  log_entries: "kind <> 'deploy'",
};

/** Rows of one statement: about 2 MB, and of those that users fill at most 100 MB. PostgreSQL takes 256 MB of JSON at once. */
const pageRowsOf = (table: string) => (table === "secret_sets" ? 50 : 1_000);

/** Of a table that is read in part, one may lie behind a hundred million rows that are passed over. */
const pageTimeoutMs = 300_000;

/** Read of a file at a time: a row of 1 MiB is put together of few pieces. */
const readBytes = 1024 * 1024;

const manifestName = "manifest.json";

const tableFile = (directory: string, table: string) => path.join(directory, "tables", `${table}.jsonl`);

/**
 * Writes all tables as of one moment into a directory: `manifest.json`, and `tables/<name>.jsonl` with a row as JSON in
 * each line. Values that are sealed stay so. The embedded database answers nobody else meanwhile.
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
    await sql`set transaction isolation level repeatable read, read only`.execute(trx.kysely);
    const rows: Record<string, number> = {};
    for (const table of await listTables(trx)) {
      if (table in leftOut) continue;
      rows[table] = await writeTable(trx, directory, table, signal);
    }
    const applied = await sql<{ name: string; additive: boolean }>`
      select name, additive from schema_migrations order by number`.execute(trx.kysely);
    const uploads = await sql<{ object_path: string }>`
      select object_path from uploads where finished_at is not null`.execute(trx.kysely);
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

/** In the log of each organization, before anybody is handed the backup. */
export async function noteBackup(db: Db, actor: string, { madeAt }: BackupManifest): Promise<void> {
  const note = { actor, action: "installation.backup", details: { made_at: madeAt } };
  await db.transaction((trx) => noteToAll(trx, note));
}

async function writeTable(trx: Trx, directory: string, table: string, signal: AbortSignal): Promise<number> {
  const condition = sql.raw(partly[table] ?? "true");
  await sql`declare backup_rows no scroll cursor for
    select row_to_json(t)::text as row from ${sql.table(table)} t where ${condition}`.execute(trx.kysely);
  const pageRows = pageRowsOf(table);
  const file = await open(tableFile(directory, table), "w", 0o600);
  try {
    let written = 0;
    while (true) {
      signal.throwIfAborted();
      const { rows } = await sql<{ row: string }>`fetch ${sql.lit(pageRows)} from backup_rows`.execute(trx.kysely);
      if (rows.length > 0) await file.appendFile(`${rows.map(({ row }) => row).join("\n")}\n`);
      written += rows.length;
      if (rows.length < pageRows) break;
    }
    await sql`close backup_rows`.execute(trx.kysely);
    return written;
  } finally {
    await file.close();
  }
}

async function listTables(trx: Trx): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select c.relname as name from pg_class c
     where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace order by c.relname`.execute(trx.kysely);
  return rows.map(({ name }) => name);
}

/** @throws Error when it is of another format. */
export async function readManifest(directory: string): Promise<BackupManifest> {
  const text = await readFile(path.join(directory, manifestName), "utf8").catch(() => "null");
  const manifest = JSON.parse(text) as BackupManifest | null;
  if (manifest?.format === 1) return manifest;
  throw new Error(
    manifest === null
      ? "this is no backup of Pierhead: it has no manifest.json"
      : `the backup has format ${manifest.format}, made by version ${manifest.version}: restore it with that version`,
  );
}

/** Is this a database that no server has ever used? */
export async function isFresh(db: Db): Promise<boolean> {
  const { rows } = await sql<{ found: string | null }>`
    select to_regclass('schema_migrations')::text as found`.execute(db.kysely);
  return rows[0]?.found === null;
}

/**
 * Fills tables that are empty, and as the manifest says, with what `writeBackup` wrote. Keys between tables are checked
 * once all rows are there. Columns that are not known are passed over.
 * @param options.leavesOutUnknown tables that are not known as well: what a newer version had added before this one was put back.
 * @throws Error when a file holds other rows than the manifest says, or a row does not fit.
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
      if (!known.has(table)) throw new Error(`the backup has a table that is not known: ${table}`);
      const loaded = await loadTable(trx, directory, table);
      if (loaded !== expected) throw new Error(`the backup has ${loaded} rows of ${table} and names ${expected}`);
    }
    for (const add of keys) await sql.raw(add).execute(trx.kysely);
    await moveSequences(trx);
  });
}

/** @returns the statements that make them again. */
async function dropForeignKeys(trx: Trx): Promise<string[]> {
  const { rows } = await sql<{ place: string; name: string; definition: string }>`
    select conrelid::regclass::text as place, quote_ident(conname) as name, pg_get_constraintdef(oid) as definition
      from pg_constraint where contype = 'f' and connamespace = current_schema()::regnamespace
     order by 1, 2`.execute(trx.kysely);
  for (const { place, name } of rows) await sql.raw(`alter table ${place} drop constraint ${name}`).execute(trx.kysely);
  return rows.map(({ place, name, definition }) => `alter table ${place} add constraint ${name} ${definition}`);
}

async function loadTable(trx: Trx, directory: string, table: string): Promise<number> {
  const file = await open(tableFile(directory, table), "r");
  try {
    // A migration may have made a first row.
    await sql`delete from ${sql.table(table)}`.execute(trx.kysely);
    let loaded = 0;
    for await (const lines of pagesOf(file, pageRowsOf(table))) {
      await sql`insert into ${sql.table(table)} overriding system value
        select * from jsonb_populate_recordset(null::${sql.table(table)}, ${`[${lines.join(",")}]`}::jsonb)`.execute(
        trx.kysely,
      );
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

/** Ended by a newline alone: to `readLines` U+2028 and U+2029 end one as well, and JSON has them in its texts as they are. */
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
 * Numbers that were given out after the backup was made shall not be given out again: who remembers one of an event or a
 * log line asks for what came later. No installation writes so many between two backups.
 */
const numbersSkipped = 1_000_000_000;

async function moveSequences(trx: Trx): Promise<void> {
  const { rows } = await sql<{ table: string; column: string }>`
    select table_name as "table", column_name as "column" from information_schema.columns
     where table_schema = current_schema() and is_identity = 'YES'`.execute(trx.kysely);
  for (const { table, column } of rows) {
    await sql`select setval(pg_get_serial_sequence(${table}, ${column}),
      (select coalesce(max(${sql.ref(column)}), 0) + ${numbersSkipped} from ${sql.table(table)}))`.execute(trx.kysely);
  }
}

/**
 * Makes what was loaded live, at another moment and perhaps on another machine: listeners start new sessions and are
 * told everything anew, what was under way begins anew, everything is looked at, and each deployment that was built here
 * and has nothing under way is deployed again, as its artifact may be gone (it is used again when it is not).
 *
 * @returns how many are deployed again.
 */
export async function reviveRestored(db: Db, { madeAt }: BackupManifest): Promise<number> {
  return db.transaction(async (trx) => {
    const run = (statement: RawBuilder<unknown>) => statement.execute(trx.kysely);
    // Above every epoch and position that a listener was given after the backup.
    await run(sql`update listeners set epoch = epoch + ${numbersSkipped}, rv = rv + ${numbersSkipped},
      session_id = null, lease_until = null`);
    await run(sql`update assignments set rv = rv + ${numbersSkipped}, generation = generation + ${numbersSkipped}`);
    await run(begunAgain);
    const { numAffectedRows } = await run(redeployed);
    await noteToAll(trx, { actor: "system", action: "installation.restore", details: { made_at: madeAt } });
    await run(sql`insert into reconcile_queue (deployment_id, run_at) select id, now() from deployments`);
    return Number(numAffectedRows ?? 0);
  });
}

/** What is in a backup is everybody's. */
async function noteToAll(trx: Trx, note: AuditNote): Promise<void> {
  const { rows } = await sql<{ id: string; name: string }>`select id, name from organizations`.execute(trx.kysely);
  for (const { id, name } of rows) {
    await audited({ organizationId: id, workspaceId: null, id, name }, note).execute(trx.kysely);
  }
}

/** Far enough for a source to be resolved, and databases to be made, while everything else begins as well. */
const creatingDeadline = sql`now() + interval '15 minutes'`;

/**
 * Whatever was on its way is resolved again, in its order: the artifact it was to run may be gone, and so is the server
 * that built it. Of UNKNOWN, as the table of statuses has it, every status is a way to CREATING.
 */
const begunAgain = sql`
  with before as (
    select r.id, r.status from revisions r join deployments d on d.id = r.deployment_id
     where ${isUnsettled("r")} and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')
  ), begun as (
    update revisions r set status = 'CREATING', status_since = now(), updated_at = now(), deadline_at = ${creatingDeadline}
      from before b where r.id = b.id
    returning r.tenant_id, r.deployment_id, r.id, b.status as old
  ), told as (
    insert into events (tenant_id, deployment_id, revision_id, kind, data)
    select tenant_id, deployment_id, id, 'revision.status',
           jsonb_build_object('from', old, 'to', 'CREATING', 'because', 'restored from a backup', 'message', null)
      from begun where old <> 'CREATING'
  )
  delete from builds where revision_id in (select id from before)`;

/** As a redeploy by request does it, for all that serve what was built here and have nothing under way. */
const redeployed = sql`
  with again as (
    select gen_random_uuid() as new_id, r.* from deployments d join revisions r on r.id = d.active_revision_id
     where r.source <> 'external_docker' and d.status in ('READY', 'UNUSED', 'UNKNOWN')
       and not exists (select from revisions n where n.deployment_id = d.id and ${isUnsettled("n")})
  ), made as (
    insert into revisions (id, tenant_id, deployment_id, status, deadline_at, source, source_config,
      source_revision_config, secret_set_id, secret_references, sizes, artifact_id, artifact_key, redeploy_of,
      triggered_by, tracked_packages)
    select new_id, tenant_id, deployment_id, 'CREATING', ${creatingDeadline}, source, source_config,
           source_revision_config, secret_set_id, secret_references, sizes, artifact_id, artifact_key, id,
           'system', tracked_packages
      from again
  ), told as (
    insert into events (tenant_id, deployment_id, revision_id, kind, data)
    select tenant_id, deployment_id, new_id, 'revision.created', '{"triggered_by": "system"}' from again
  )
  update deployments d set latest_revision_id = a.new_id, updated_at = now() from again a where d.id = a.deployment_id`;
