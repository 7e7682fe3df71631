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
  /** To open the same database again, as another server would. undefined: embedded, which only one can open. */
  databaseUrl: string | undefined;
  close(): Promise<void>;
}

const logger = createLogger("silent");

/** What the tests of this file share; ended after the last one. */
const closers: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

/**
 * Runs a test on an empty, migrated database: on the embedded one always, on PostgreSQL where it is installed (or where
 * PIERHEAD_TEST_DATABASE_URL leads). Without it, one line says so.
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
 * An empty, migrated database. On PostgreSQL a database of its own; the embedded engine is shared by the tests of a file
 * and emptied, so one at a time. @returns undefined when PostgreSQL is not there.
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

/** Rows that the migrations make. */
const kept = ['"schema_migrations"', '"clock"'];

/** Of some 80 tables a test fills a few, and each that is emptied costs the embedded engine new files: 150 ms for all. */
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
  if (given === "none") return undefined; // said already by the one who started us
  const found = given === undefined ? await startPostgresServer() : { url: given, stop: async () => {} };
  if (found === undefined) {
    console.log(postgresSkipped);
    return undefined;
  }
  closers.push(() => found.stop());
  await makeTemplate(found.url);
  return found;
}

/** Named by what the migrations say, so that processes that share a server share it, and none gets an old one. */
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
