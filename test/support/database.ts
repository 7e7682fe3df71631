import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import pg from "pg";
import { type Db, openDatabase } from "../../src/store/engine/database.ts";
import { migrate } from "../../src/store/engine/migrate.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { digestOfMigrations, templateDirectory } from "./database-template.ts";
import { type PostgresServer, postgresSkipped, startPostgresServer } from "./postgres-server.ts";

export type DatabaseKind = Db["kind"];

export interface TestDatabase {
  db: Db;
  /** Opens the same database again, as another server would; undefined for the embedded engine, which allows one process. */
  databaseUrl: string | undefined;
  close(): Promise<void>;
}

const logger = createLogger("silent");

/** Closes what the tests of this file share, after the last test. */
const closers: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

/**
 * Runs a test on an empty, migrated database: always on the embedded engine, and on PostgreSQL if it is installed or
 * PIERHEAD_TEST_DATABASE_URL is set. Otherwise it prints one line about the skipped tests.
 */
export function eachDatabase(
  name: string,
  act: (db: Db, made: TestDatabase) => Promise<void>,
  options: { kinds?: DatabaseKind[] } = {},
): void {
  for (const kind of options.kinds ?? (["embedded", "postgres"] as const)) {
    test(`${name} (${kind})`, async (context) => {
      const made = await openTestDatabase(kind);
      if (made === undefined) return context.skip("PostgreSQL is not installed");
      try {
        await act(made.db, made);
      } finally {
        await made.close();
      }
    });
  }
}

/**
 * Opens an empty, migrated database. PostgreSQL creates a new database. The tests of a file share the embedded engine, which
 * is emptied after each test, so only one can be open. @returns undefined without PostgreSQL.
 */
export async function openTestDatabase(kind: DatabaseKind): Promise<TestDatabase | undefined> {
  return kind === "embedded" ? openEmbedded() : openPostgres();
}

let embedded: Promise<Db> | undefined;

async function openEmbedded(): Promise<TestDatabase> {
  embedded ??= startEmbedded();
  const db = await embedded;
  return { db, databaseUrl: undefined, close: () => empty(db) };
}

async function startEmbedded(): Promise<Db> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-db-"));
  const db = await openDatabase({ dataDir, logger, durable: false, templateDirectory: await templateDirectory() });
  await migrate(db);
  closers.push(async () => {
    await db.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  return db;
}

/** Tables whose rows come from the migrations. */
const kept = ['"schema_migrations"', '"clock"'];

/** Truncates only the filled tables: a test fills few of about 80, and the embedded engine needs 150 ms to truncate all. */
async function empty(db: Db): Promise<void> {
  const { rows: tables } = await db.query<{ name: string }>(sql`
    select relname as name from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r'`);
  const names = tables.map((table) => `"${table.name}"`).filter((name) => !kept.includes(name));
  const filled = names.map((name) => `select '${name}' as name where exists (select from ${name})`).join(" union all ");
  const { rows } = await db.query<{ name: string }>(sql.raw(filled));
  if (rows.length === 0) return;
  const list = rows.map((row) => row.name).join(", ");
  await db.query(sql.raw(`truncate ${list} restart identity cascade`));
}

let server: ReturnType<typeof findServer> | undefined;
let databases = 0;

async function openPostgres(): Promise<TestDatabase | undefined> {
  server ??= findServer();
  const found = await server;
  if (found === undefined) return undefined;
  databases += 1;
  const name = `t_${process.pid}_${databases}`;
  await administrate(found.url, `create database ${name} template ${templateName}`);
  const databaseUrl = urlOf(found.url, name);
  const db = await openDatabase({ databaseUrl, dataDir: tmpdir(), poolMax: 10, logger });
  return {
    db,
    databaseUrl,
    async close() {
      await db.close();
      await administrate(found.url, `drop database ${name} with (force)`);
    },
  };
}

async function findServer(): Promise<Pick<PostgresServer, "url" | "stop"> | undefined> {
  const given = process.env["PIERHEAD_TEST_DATABASE_URL"];
  if (given === "none") return undefined; // the parent process has already printed the line
  const found = given === undefined ? await startPostgresServer() : { url: given, stop: async () => {} };
  if (found === undefined) {
    console.log(postgresSkipped);
    return undefined;
  }
  closers.push(() => found.stop());
  await makeTemplate(found.url);
  return found;
}

/** Contains a digest of the migrations: processes on one server share the template, and none uses an outdated one. */
const templateName = `pierhead_template_${digestOfMigrations()}`;

async function makeTemplate(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    // Other test processes wait here until the first one is done.
    await client.query("select pg_advisory_lock(1)");
    const { rowCount } = await client.query("select 1 from pg_database where datname = $1", [templateName]);
    if (rowCount !== 0) return;
    const draft = `draft_${process.pid}`;
    await client.query(`create database ${draft}`);
    const db = await openDatabase({ databaseUrl: urlOf(url, draft), dataDir: tmpdir(), logger });
    await migrate(db).finally(() => db.close());
    await client.query(`alter database ${draft} rename to ${templateName}`);
  } finally {
    await client.end();
  }
}

async function administrate(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

function urlOf(url: string, database: string): string {
  const [base = "", query] = url.split("?");
  const renamed = base.replace(/\/[^/]*$/, `/${database}`);
  return query === undefined ? renamed : `${renamed}?${query}`;
}
