import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import type { Columns, Table } from "../../src/store/engine/table.ts";
import { eachDatabase, openTestDatabase } from "../support/database.ts";
import { readCatalogue } from "../support/database-catalogue.ts";

// After a new migration: `node --test-update-snapshots test/store/schema.test.ts`, and read what changed.
for (const kind of ["embedded", "postgres"] as const) {
  test(`the migrations create exactly the schema of the snapshot (${kind})`, async (context) => {
    const database = await openTestDatabase(kind);
    if (database === undefined) return context.skip("PostgreSQL is not installed");
    try {
      const catalogue = `${(await readCatalogue(database.db)).join("\n")}\n`;
      context.assert.fileSnapshot(catalogue, "test/store/snapshots/schema.txt", { serializers: [(text) => text] });
    } finally {
      await database.close();
    }
  });
}

eachDatabase(
  "the tables in the code have exactly the columns, with their types, of the migrated database",
  async (db) => {
    const { rows } = await db.query<{ column: string }>(sql`
    select c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, null) ||
           case when a.attnotnull then '' else ' null' end as column
      from pg_class c join pg_attribute a on a.attrelid = c.oid
     where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace and c.relname <> 'schema_migrations'
       and a.attnum > 0 and not a.attisdropped`);
    assert.deepEqual(await declaredColumns(), rows.map(({ column }) => column).sort());
  },
);

async function declaredColumns(): Promise<string[]> {
  const files = readdirSync("src/store", { recursive: true, encoding: "utf8" }).filter(
    (file) => /(^|[/-])tables?\.ts$/.test(file) && file !== "engine/table.ts",
  );
  const modules = await Promise.all(files.map((file) => import(`../../src/store/${file}`)));
  const tables = modules.flatMap((module) => Object.values(module) as Table<Columns>[]);
  return tables
    .flatMap(({ name, columns }) =>
      Object.entries(columns).map(
        ([column, { type, isNullable }]) => `${name}.${column} ${type}${isNullable ? " null" : ""}`,
      ),
    )
    .sort();
}
