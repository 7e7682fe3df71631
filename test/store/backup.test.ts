import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { sql } from "kysely";
import { loadBackup, writeBackup } from "../../src/store/backup.ts";
import { eachDatabase } from "../database.ts";
import { makeDeployment, makeWorld } from "./fixtures.ts";

eachDatabase("texts with any character come back from a backup as they were", async (db) => {
  // Ends of lines to some readers; JSON lets them stand in a text as they are.
  const message = "a\u2028b\u2029c\u0085d\r\n\u000b\f\u{1f600} \\u2028";
  const { revisionId } = await makeDeployment(db, await makeWorld(db));
  const write = (text: string) =>
    sql`update revisions set status_message = ${text} where id = ${revisionId}`.execute(db.kysely);
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-backup-"));
  try {
    await write(message);
    const { signal } = new AbortController();
    const { manifest } = await writeBackup(db, directory, { version: "test", signal });
    await write("something else");
    await loadBackup(db, directory, manifest);
  } finally {
    await rm(directory, { recursive: true });
  }
  const { rows } = await sql<{ status_message: string }>`select status_message from revisions`.execute(db.kysely);
  assert.deepEqual(rows, [{ status_message: message }]);
});
