import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { access, constants } from "node:fs/promises";
import path from "node:path";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { DatabaseServerError, displayAddress } from "./database-server.ts";
import { withRestoreLogin } from "./restore-login.ts";

/** PostgreSQL's own programs for one database, on this machine or in a container. */
export interface PostgresPrograms {
  /**
   * Runs a program to its end. A restore has the rights of the database's owner only. @param output receives what it prints, and is ended.
   * @throws DatabaseServerError with its last output
   */
  run(program: "pg_dump" | "pg_restore" | "psql", argv: string[], output: Writable): Promise<void>;
  /** Makes a file of this machine available to the programs. @returns the path under which they find it */
  stageFile(file: string): Promise<string>;
  /** True when extensions belong to the deployment and not to the operator. */
  areExtensionsOwn: boolean;
}

/** Characters of a program's error output to keep. An error quotes its last lines. */
const errorOutputMax = 16_384;

/** How long a restore waits for tables that the agent has locked. */
const lockTimeoutMs = 30_000;

/**
 * Returns the programs of this machine.
 * @param at.adminUrl URL of the role that creates databases: it may read and write this one
 * @param at.env environment whose PATH is searched for the programs
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
      const isRestore = program === "pg_restore" && !argv.includes("--list");
      if (!isRestore) return runLocally(at, environmentOf(admin, at.name), { program, argv, output });
      await withRestoreLogin(at, async ({ username, password }) => {
        const as = { ...environmentOf(admin, at.name), PGUSER: username, PGPASSWORD: password };
        await runLocally(at, as, { program, argv, output });
      });
    },
  };
}

/** Runs a program of this machine. @param variables which server it connects to, and as whom */
async function runLocally(
  at: { adminUrl: string; env: Record<string, string | undefined>; signal: AbortSignal },
  variables: Record<string, string>,
  { program, argv, output }: { program: string; argv: string[]; output: Writable },
): Promise<void> {
  const given = Object.fromEntries(Object.entries({ ...at.env, ...variables }).filter(([, value]) => value));
  const child = spawn(await findProgram(program, at.env), argv, {
    env: given as Record<string, string>,
    stdio: ["ignore", "pipe", "pipe"],
    signal: at.signal,
  });
  let errorOutput = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errorOutput = (errorOutput + text).slice(-errorOutputMax);
  });
  const ended = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
  const [[exitCode, killedBy]] = await Promise.all([ended, pipeline(child.stdout, output)]).finally(() =>
    at.signal.throwIfAborted(),
  );
  if (exitCode !== 0) {
    const end = exitCode === null ? `killed by ${killedBy}` : `exit code ${exitCode}`;
    throw programError(program, `PostgreSQL at ${displayAddress(new URL(at.adminUrl))}`, errorOutput || end);
  }
}

/** A container in which programs can run and to which files can be copied. */
export interface RunningContainer {
  name: string;
  run(
    argv: string[],
    env: Record<string, string>,
    output: Writable,
  ): Promise<{ exitCode: number; errorOutput: string }>;
  copyIn(file: string): Promise<string>;
}

/** Returns the programs in the database's own container. Their version matches the server, and they need no password. */
export function containerPrograms(container: RunningContainer, name: string): PostgresPrograms {
  const env = { PGUSER: name, PGDATABASE: name, PGOPTIONS: sessionOptions, PGAPPNAME: applicationName };
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

/** A database that a move holds is read-only for every session that does not say otherwise, and these sessions administer it. */
const sessionOptions = `-c lock_timeout=${lockTimeoutMs} -c default_transaction_read_only=off`;
export const applicationName = "pierhead backup";

/** Password and address are passed in the environment, because every user of the machine can read arguments. */
const environmentOf = (admin: URL, name: string) => ({
  // Only URLs have brackets around an IPv6 address.
  PGHOST: decodeURIComponent(admin.hostname).replace(/^\[(.*)\]$/, "$1") || (admin.searchParams.get("host") ?? ""),
  PGPORT: admin.port,
  PGUSER: decodeURIComponent(admin.username),
  PGPASSWORD: decodeURIComponent(admin.password),
  PGDATABASE: name,
  PGSSLMODE: admin.searchParams.get("sslmode") ?? "",
  PGOPTIONS: sessionOptions,
  PGAPPNAME: applicationName,
});

const programError = (program: string, where: string, words: string) =>
  new DatabaseServerError(`${program} on ${where}: ${words.trim().split("\n").slice(-5).join("\n")}`);

/** Finds a program. Newer versions can read older servers, so it prefers the newest of those that Debian installs. */
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
  throw new DatabaseServerError(
    `${name} is not installed on this machine. On Debian: apt-get install postgresql-client`,
  );
}

const versionOf = (file: string) => Number(file.split("/")[4]);
