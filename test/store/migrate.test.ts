import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import pg from "pg";
import { openDatabase } from "../../src/store/engine/database.ts";
import { DatabaseUnusable } from "../../src/store/engine/database-errors.ts";
import { migrate } from "../../src/store/engine/migrate.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

eachDatabase("applying the migrations again changes nothing", async (db) => {
  const before = await columnsOf(db);
  assert.deepEqual(await migrate(db), []);
  assert.deepEqual(await columnsOf(db), before);
});

eachDatabase("refuses a database newer than the program, naming the migration", async (db) => {
  await db.query(sql`insert into schema_migrations (number, name, digest) values (9999, '9999_future.sql', 'x')`);
  try {
    await assert.rejects(
      migrate(db),
      (error) => error instanceof DatabaseUnusable && /newer than this program.*9999_future/.test(error.message),
    );
  } finally {
    await db.query(sql`delete from schema_migrations where number = 9999`);
  }
});

eachDatabase("refuses a database that a development version from before the first release created", async (db) => {
  const { rows } = await db.query<{ name: string }>(sql`select name from schema_migrations where number = 2`);
  const rename = (name: string) => db.query(sql`update schema_migrations set name = ${name} where number = 2`);
  await rename("0002_idempotency_keys.sql");
  try {
    await assert.rejects(
      migrate(db),
      (error) => error instanceof DatabaseUnusable && /before the first release.*empty database/.test(error.message),
    );
  } finally {
    await rename(rows[0]?.name as string);
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
    await db.query(sql`delete from schema_migrations where number >= 9998`);
    await db.query(sql`drop table if exists later`);
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
    await db.query(sql`drop schema public cascade; create schema public`);
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

/** Opens a session of its own. */
async function openSession(databaseUrl: string | undefined) {
  const session = new pg.Client({ connectionString: databaseUrl });
  await session.connect();
  return session;
}

eachDatabase(
  "a server that waits for the migration of another one logs it",
  async (db, { databaseUrl }) => {
    const lines: string[] = [];
    const logger = { info: (line: string) => void lines.push(line) };
    assert.deepEqual(await migrate(db, { logger }), []);
    assert.deepEqual(lines, []);
    const other = await openSession(databaseUrl);
    try {
      // The lock of all versions: the first four bytes of "pierhead".
      await other.query("begin; select pg_advisory_xact_lock(1885955442)");
      const migrated = migrate(db, { logger });
      await eventually(
        () => lines,
        ({ length }) => length > 0,
      );
      await other.query("commit");
      assert.deepEqual(await migrated, []);
      assert.deepEqual(lines, ["waiting for the migration lock, which another server holds"]);
    } finally {
      await other.end();
    }
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "a migration that waits for a table does not block servers of the previous version",
  async (db, { databaseUrl }) => {
    const directory = await mkdtemp(path.join(tmpdir(), "pierhead-migrations-"));
    const backup = await openSession(databaseUrl);
    const lines: string[] = [];
    const logger = { info: (line: string) => void lines.push(line) };
    try {
      await cp("src/store/engine/migrations", directory, { recursive: true });
      await writeFile(
        path.join(directory, "9998_later.sql"),
        "-- additive\nalter table deployments add column later int;",
      );
      await backup.query("begin; select count(*) from deployments");
      const migrated = migrate(db, { directory, logger });
      const isWaiting = async () => (await db.query(sql`select 1 from pg_locks where not granted`)).rows.length > 0;
      await eventually(isWaiting, (waits) => waits);
      const began = performance.now();
      await db.query(sql`select count(*) from deployments`);
      assert.ok(performance.now() - began < 10_000, `${performance.now() - began} ms`);
      await eventually(
        () => lines,
        ({ length }) => length > 0,
      );
      await backup.query("commit");
      assert.deepEqual(await migrated, ["9998_later.sql"]);
      assert.deepEqual(lines, ["waiting for other sessions to release the tables, in order to migrate them"]);
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
  const { rows } = await db.query<{ column: string }>(sql`
    select table_name || '.' || column_name as column from information_schema.columns
     where table_schema = 'public' and table_name <> 'schema_migrations'`);
  return rows.map((row) => row.column).sort();
}

test("an additive migration keeps the columns that prepared statements of the previous version read", async () => {
  const directory = "src/store/engine/migrations";
  for (const name of await readdir(directory)) {
    const text = await readFile(path.join(directory, name), "utf8");
    if (text.startsWith("-- additive\n"))
      assert.doesNotMatch(text, /\b(drop|rename) column|alter column \S+ (set data )?type/i, name);
  }
});

eachDatabase("providers of one name get redirect URIs of their own if their codes could be mistaken", async (db) => {
  await db.query(sql`alter table oauth_providers drop column has_own_callback`);
  await db.query(sql`delete from schema_migrations where number = 20`);
  const add = async (token_url: string, client_id: string, { method = "none", name = "acme" } = {}) => {
    const id = randomUUID();
    await db.query(sql`insert into organizations (id, name, plan) values (${id}, ${id}, 'cloud')`);
    await db.query(sql`
      insert into oauth_providers (id, organization_id, provider_id, name, client_id, auth_url, token_url, uses_pkce,
        token_endpoint_auth_method, created_at)
      values (${id}, ${id}, ${name}, 'Acme', ${client_id}, ${token_url}, ${token_url}, true, ${method}, clock_timestamp())`);
    return id;
  };
  const keeping = [
    await add("https://acme.example/token", "oldest"),
    await add("https://ACME.example/other", "second"),
    await add("https:\\\\acme.example", "secret", { method: "client_secret_post" }),
    await add("https://acme.example/token", "secret", { method: "client_secret_post" }),
    await add("https://acme.example/token", "oldest", { name: "other" }),
  ];
  for (const url of [
    "https://other.example/",
    "https:other.example/",
    "https:/other.example/",
    "https:\\\\other.example",
  ])
    await add(url, "theirs");
  for (const method of ["none", "client_secret_post"]) await add("https://acme.example/token", " Oldest", { method });
  await add("https://acme.example/token", "secret");
  await add("https://acme.example/token", "oldest", { name: "ACME" });
  await add("https://other.example/token", "theirs", { name: "Acme" });

  assert.deepEqual(await migrate(db), ["0020_callbacks_of_providers.sql"]);
  const { rows } = await db.query<{ id: string }>(sql`select id from oauth_providers where not has_own_callback`);
  assert.deepEqual(rows.map(({ id }) => id).sort(), keeping.sort());
});
