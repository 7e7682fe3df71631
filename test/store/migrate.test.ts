import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { sql } from "kysely";
import pg from "pg";
import { openDatabase } from "../../src/store/engine/database.ts";
import { DatabaseUnusable } from "../../src/store/engine/database-errors.ts";
import { migrate } from "../../src/store/engine/migrate.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

eachDatabase("applying the migrations again changes nothing", async (db) => {
  const before = await columnsOf(db);
  assert.deepEqual(await migrate(db), []);
  assert.deepEqual(await columnsOf(db), before);
});

eachDatabase("the tables in the code have exactly the columns of the migrated database", async (db) => {
  assert.deepEqual(await declaredColumns(), await columnsOf(db));
});

eachDatabase("refuses a database newer than the program, naming the migration", async (db) => {
  await sql`insert into schema_migrations (number, name, digest) values (9999, '9999_future.sql', 'x')`.execute(
    db.kysely,
  );
  try {
    await assert.rejects(
      migrate(db),
      (error) => error instanceof DatabaseUnusable && /newer than this program.*9999_future/.test(error.message),
    );
  } finally {
    await sql`delete from schema_migrations where number = 9999`.execute(db.kysely);
  }
});

eachDatabase("refuses a database that a development version from before the first release created", async (db) => {
  await sql`insert into schema_migrations (number, name, digest) values (2, '0002_idempotency_keys.sql', 'x')`.execute(
    db.kysely,
  );
  try {
    await assert.rejects(
      migrate(db),
      (error) => error instanceof DatabaseUnusable && /before the first release.*empty database/.test(error.message),
    );
  } finally {
    await sql`delete from schema_migrations where number = 2`.execute(db.kysely);
  }
});

eachDatabase("a rolled-back program works with tables that a newer one only added to", async (db) => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-migrations-"));
  try {
    await cp("src/store/engine/migrations", directory, { recursive: true });
    await writeFile(path.join(directory, "9998_later.sql"), "-- additive\ncreate table later (id int);");
    assert.deepEqual(await migrate(db, { directory }), ["9998_later.sql"]);
    assert.deepEqual(await migrate(db), []);
    await writeFile(path.join(directory, "9999_other.sql"), "alter table later drop column id;");
    assert.deepEqual(await migrate(db, { directory }), ["9999_other.sql"]);
    await assert.rejects(migrate(db), /newer than this program.*9999_other/);
  } finally {
    await sql`delete from schema_migrations where number >= 9998`.execute(db.kysely);
    await sql`drop table if exists later`.execute(db.kysely);
    await rm(directory, { recursive: true, force: true });
  }
});

eachDatabase("a failed migration changes nothing, and a changed one is refused", async (db) => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-migrations-"));
  try {
    await cp("src/store/engine/migrations", directory, { recursive: true });
    const broken = path.join(directory, "9000_broken.sql");
    await writeFile(broken, "create table half_done (id int); select no_such_column;");
    await assert.rejects(migrate(db, { directory }), /migration 9000_broken.sql/);
    assert.ok(!(await columnsOf(db)).some((column) => column.startsWith("half_done.")));
    await rm(broken);
    await writeFile(path.join(directory, "0001_initial.sql"), "select 1;");
    await assert.rejects(migrate(db, { directory }), /0001_initial.sql was changed/);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

eachDatabase(
  "of servers that start together on an empty database, one migrates and none fails",
  async (db, { databaseUrl }) => {
    await sql`drop schema public cascade; create schema public`.execute(db.kysely);
    const logger = createLogger("silent");
    const servers = await Promise.all([1, 2, 3, 4].map(() => openDatabase({ databaseUrl, dataDir: tmpdir(), logger })));
    try {
      const applied = await Promise.all(servers.map((server) => migrate(server)));
      assert.equal(applied.filter((names) => names.length > 0).length, 1);
    } finally {
      await Promise.all(servers.map((server) => server.close()));
    }
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "a migration that waits for a table does not block servers of the previous version",
  async (db, { databaseUrl }) => {
    const directory = await mkdtemp(path.join(tmpdir(), "pierhead-migrations-"));
    const backup = new pg.Client({ connectionString: databaseUrl });
    await backup.connect();
    try {
      await cp("src/store/engine/migrations", directory, { recursive: true });
      await writeFile(
        path.join(directory, "9998_later.sql"),
        "-- additive\nalter table deployments add column later int;",
      );
      await backup.query("begin; select count(*) from deployments");
      const migrated = migrate(db, { directory });
      const isWaiting = async () =>
        (await sql`select 1 from pg_locks where not granted`.execute(db.kysely)).rows.length > 0;
      await eventually(isWaiting, (waits) => waits);
      const began = performance.now();
      await sql`select count(*) from deployments`.execute(db.kysely);
      assert.ok(performance.now() - began < 10_000, `${performance.now() - began} ms`);
      await backup.query("commit");
      assert.deepEqual(await migrated, ["9998_later.sql"]);
    } finally {
      await backup.end();
      await rm(directory, { recursive: true, force: true });
    }
  },
  { kinds: ["postgres"] },
);

test("every migration has a unique number", async () => {
  const names = await readdir("src/store/engine/migrations");
  assert.ok(names.every((name) => /^\d{4}_[a-z_]+\.sql$/.test(name)));
  assert.equal(new Set(names.map((name) => name.slice(0, 4))).size, names.length);
});

async function columnsOf(db: Parameters<typeof migrate>[0]): Promise<string[]> {
  const { rows } = await sql<{ column: string }>`
    select table_name || '.' || column_name as column from information_schema.columns
     where table_schema = 'public' and table_name <> 'schema_migrations'`.execute(db.kysely);
  return rows.map((row) => row.column).sort();
}

/** Reads `schema.ts` as text: types leave nothing behind at run time. */
async function declaredColumns(): Promise<string[]> {
  const files = ["schema", "schema-oauth", "schema-webhooks", "schema-integrations"].map(
    (name) => `src/store/engine/${name}.ts`,
  );
  const text = (await Promise.all(files.map((file) => readFile(file, "utf8")))).join("\n");
  const tables = [...text.matchAll(/interface (?:Database|OAuthTables|IntegrationTables)\b.*? \{\n(.*?)\n\}/gs)]
    .map(([, body]) => body)
    .join("\n");
  return [...tables.matchAll(/(\w+): (\w+);/g)]
    .flatMap(([, table, type]) => {
      const [, body = ""] = new RegExp(`interface ${type} \\{\\n(.*?)\\n\\}`, "s").exec(text) ?? [];
      return [...body.matchAll(/^ {2}(\w+):/gm)].map(([, column]) => `${table}.${column}`);
    })
    .sort();
}
