import { globSync } from "node:fs";
import { access, constants, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { execa } from "execa";
import { DatabaseServerError, shownAddress } from "./database-server.ts";

export interface BackupOptions {
  /** Of a role that may read and write the database: the one that databases are made with. */
  adminUrl: string;
  /** Of the database, and of the role that owns it. */
  name: string;
  file: string;
  /** Environment to look for PostgreSQL's programs with. */
  env: Record<string, string | undefined>;
  signal: AbortSignal;
}

/** An agent that holds its tables longer than this keeps a restore from them. */
const lockTimeoutMs = 30_000;

/**
 * Writes a database into a file, as of one moment, while its agent goes on; whole or not at all.
 * @throws DatabaseServerError with the last words of `pg_dump`
 */
export async function backUpDatabase(options: BackupOptions): Promise<void> {
  const draft = `${options.file}.unfinished`;
  const argv = ["--format=custom", "--no-owner", "--no-privileges", `--file=${draft}`];
  try {
    // Nobody else on this machine may read what an agent keeps.
    await writeFile(draft, "", { mode: 0o600 });
    await run("pg_dump", argv, options);
    await rename(draft, options.file);
  } finally {
    await rm(draft, { force: true });
  }
}

/**
 * Gives a database what a file says, in place of what of that is in it: all of it or, when anything fails, nothing. Everything
 * belongs to the owner of the database. Extensions stay as they are: they are the operator's.
 * @throws DatabaseServerError with the last words of `pg_restore`
 */
export async function restoreDatabase(options: BackupOptions): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-restore-"));
  try {
    const contents = path.join(directory, "contents");
    const listed = await run("pg_restore", ["--list", options.file], options);
    const isOwn = (line: string) => !/^\d+; \d+ \d+ (EXTENSION|COMMENT - EXTENSION) /.test(line);
    await writeFile(contents, listed.split("\n").filter(isOwn).join("\n"));
    const how = ["--clean", "--if-exists", "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"];
    const what = [`--role=${options.name}`, `--dbname=${options.name}`, `--use-list=${contents}`, options.file];
    await run("pg_restore", [...how, ...what], options);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Password and address are in the environment: arguments can be read by everybody. */
async function run(program: string, argv: string[], { adminUrl, name, env, signal }: BackupOptions): Promise<string> {
  const admin = new URL(adminUrl);
  const connection = {
    PGHOST: decodeURIComponent(admin.hostname) || (admin.searchParams.get("host") ?? ""),
    PGPORT: admin.port,
    PGUSER: decodeURIComponent(admin.username),
    PGPASSWORD: decodeURIComponent(admin.password),
    PGDATABASE: name,
    PGSSLMODE: admin.searchParams.get("sslmode") ?? "",
    PGOPTIONS: `-c lock_timeout=${lockTimeoutMs}`,
    PGAPPNAME: "pierhead backup",
  };
  const given = Object.fromEntries(Object.entries({ ...env, ...connection }).filter(([, value]) => value));
  const { failed, stdout, stderr, exitCode } = await execa(await findProgram(program, env), argv, {
    env: given as Record<string, string>,
    extendEnv: false,
    reject: false,
    stdin: "ignore",
    cancelSignal: signal,
  });
  signal.throwIfAborted();
  if (!failed) return stdout;
  const words = stderr.trim().split("\n").slice(-5).join("\n") || `exit code ${exitCode}`;
  throw new DatabaseServerError(`${program} on PostgreSQL at ${shownAddress(admin)}: ${words}`);
}

/** Newer programs read older servers: of those that Debian puts side by side, the newest. */
async function findProgram(name: string, env: BackupOptions["env"]): Promise<string> {
  const onPath = (env["PATH"] ?? "").split(path.delimiter).map((directory) => path.join(directory, name));
  const beside = globSync(`/usr/lib/postgresql/*/bin/${name}`).sort((a, b) => versionOf(b) - versionOf(a));
  for (const file of [...onPath, ...beside]) {
    const isThere = await access(file, constants.X_OK).then(
      () => path.isAbsolute(file),
      () => false,
    );
    if (isThere) return file;
  }
  throw new DatabaseServerError(`${name} is not installed here (Debian: apt-get install postgresql-client)`);
}

const versionOf = (file: string) => Number(file.split("/")[4]);
