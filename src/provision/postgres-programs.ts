import { globSync } from "node:fs";
import { access, constants } from "node:fs/promises";
import path from "node:path";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { execa } from "execa";
import { DatabaseServerError, displayAddress } from "./database-server.ts";

/** PostgreSQL's own programs at one database, wherever they are. */
export interface PostgresPrograms {
  /**
   * Runs one to its end. @param output gets what it prints, and is ended.
   * @throws DatabaseServerError with its last words
   */
  run(program: "pg_dump" | "pg_restore", argv: string[], output: Writable): Promise<void>;
  /** @returns the place under which they find a file of this machine. */
  stageFile(file: string): Promise<string>;
  /** Extensions are the deployment's own, and not the operator's. */
  areExtensionsOwn: boolean;
}

/** An agent that holds its tables longer than this keeps a restore from them. */
const lockTimeoutMs = 30_000;

/**
 * Those of this machine.
 * @param at.adminUrl of a role that may read and write the database: the one that databases are made with.
 * @param at.env environment to look for them with.
 */
export function localPrograms(at: {
  adminUrl: string;
  name: string;
  env: Record<string, string | undefined>;
  signal: AbortSignal;
}): PostgresPrograms {
  const admin = new URL(at.adminUrl);
  return {
    areExtensionsOwn: false,
    stageFile: async (file) => file,
    async run(program, argv, output) {
      const given = Object.fromEntries(
        Object.entries({ ...at.env, ...environmentOf(admin, at.name) }).filter(([, value]) => value),
      );
      const child = execa(await findProgram(program, at.env), argv, {
        ...{
          env: given as Record<string, string>,
          extendEnv: false,
          reject: false,
          stdin: "ignore",
          buffer: { stdout: false },
        },
        cancelSignal: at.signal,
      });
      const [{ failed, stderr, exitCode }] = await Promise.all([child, pipeline(child.stdout, output)]);
      at.signal.throwIfAborted();
      if (failed)
        throw programError(program, `PostgreSQL at ${displayAddress(admin)}`, stderr || `exit code ${exitCode}`);
    },
  };
}

/** What runs programs in the container of a database, and puts files into it. */
export interface RunningContainer {
  name: string;
  run(
    argv: string[],
    env: Record<string, string>,
    output: Writable,
  ): Promise<{ exitCode: number; errorOutput: string }>;
  copyIn(file: string): Promise<string>;
}

/** Those in the container of the database: of its own version, and nobody has to know the password. */
export function containerPrograms(container: RunningContainer, name: string): PostgresPrograms {
  const env = { PGUSER: name, PGDATABASE: name, PGOPTIONS: lockOptions, PGAPPNAME: applicationName };
  return {
    areExtensionsOwn: true,
    stageFile: (file) => container.copyIn(file),
    async run(program, argv, output) {
      const { exitCode, errorOutput } = await container.run([program, ...argv], env, output);
      if (exitCode !== 0)
        throw programError(program, `container ${container.name}`, errorOutput || `exit code ${exitCode}`);
    },
  };
}

const lockOptions = `-c lock_timeout=${lockTimeoutMs}`;
const applicationName = "pierhead backup";

/** Password and address are in the environment: arguments can be read by everybody. */
const environmentOf = (admin: URL, name: string) => ({
  // An address of IPv6 is in brackets in a URL alone.
  PGHOST: decodeURIComponent(admin.hostname).replace(/^\[(.*)\]$/, "$1") || (admin.searchParams.get("host") ?? ""),
  PGPORT: admin.port,
  PGUSER: decodeURIComponent(admin.username),
  PGPASSWORD: decodeURIComponent(admin.password),
  PGDATABASE: name,
  PGSSLMODE: admin.searchParams.get("sslmode") ?? "",
  PGOPTIONS: lockOptions,
  PGAPPNAME: applicationName,
});

const programError = (program: string, where: string, words: string) =>
  new DatabaseServerError(`${program} on ${where}: ${words.trim().split("\n").slice(-5).join("\n")}`);

/** Newer programs read older servers: of those that Debian puts side by side, the newest. */
async function findProgram(name: string, env: Record<string, string | undefined>): Promise<string> {
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
