import { test } from "node:test";
import { openTestDatabase } from "../support/database.ts";
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
