import { createWriteStream } from "node:fs";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import type { PostgresPrograms } from "./postgres-programs.ts";

export interface BackupOptions {
  programs: PostgresPrograms;
  /** Name of the database and of its owner role. */
  name: string;
  file: string;
}

/**
 * Writes a consistent snapshot of a database to a file while its agent keeps running. A failed backup leaves no file.
 * @throws DatabaseServerError with the last output of `pg_dump`
 */
export async function backUpDatabase({ programs, file }: BackupOptions): Promise<void> {
  const draft = `${file}.unfinished`;
  // Other users of this machine must not read an agent's data.
  await writeFile(draft, "", { mode: 0o600 });
  const output = createWriteStream(draft, { flags: "r+" });
  try {
    await programs.run("pg_dump", ["--format=custom", "--no-owner", "--no-privileges"], output);
    await rename(draft, file);
  } finally {
    output.destroy();
    await rm(draft, { force: true });
  }
}

/**
 * Restores a database from a file in one transaction, replacing objects that the file contains. The owner of the database
 * owns everything afterwards. Extensions stay unchanged where they belong to the operator.
 * @throws DatabaseServerError with the last output of `pg_restore`
 */
export async function restoreDatabase({ programs, name, file }: BackupOptions): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-restore-"));
  try {
    const lent = await programs.stageFile(file);
    const contents = path.join(directory, "contents");
    const listed = await readList(programs, lent);
    const isTaken = (line: string) =>
      programs.areExtensionsOwn || !/^\d+; \d+ \d+ (EXTENSION|COMMENT - EXTENSION) /.test(line);
    await writeFile(contents, listed.split("\n").filter(isTaken).join("\n"));
    const how = ["--clean", "--if-exists", "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"];
    const what = [`--role=${name}`, `--dbname=${name}`, `--use-list=${await programs.stageFile(contents)}`, lent];
    await programs.run("pg_restore", [...how, ...what], new PassThrough().resume());
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function readList(programs: PostgresPrograms, file: string): Promise<string> {
  const output = new PassThrough();
  const [listed] = await Promise.all([text(output), programs.run("pg_restore", ["--list", file], output)]);
  return listed;
}
