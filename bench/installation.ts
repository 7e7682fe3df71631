import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { bootstrap } from "../src/server/bootstrap.ts";
import { readConfig } from "../src/server/config.ts";
import { serverNodeFlags } from "../src/server/tuning/node-flags.ts";
import { type Db, openDatabase } from "../src/store/engine/database.ts";
import { ensureTemplate } from "../src/store/engine/embedded/prepare-directory.ts";
import { migrate } from "../src/store/engine/migrate.ts";
import { readOrCreateMasterKey } from "../src/store/secrets/master-key.ts";
import { openSealer, type Sealer } from "../src/store/secrets/seal.ts";
import { createLogger } from "../src/telemetry/log.ts";
import { type PostgresServer, startPostgresServer } from "../test/support/postgres-server.ts";
import { toBeEnded } from "./endings.ts";
import type { Question, Usage } from "./server-messages.ts";
import type { WrittenEvent } from "./write-events.ts";

export type DatabaseKind = Db["kind"];

/** State that the benches of one run share. */
export interface BenchRun extends AsyncDisposable {
  /** `small` runs all benches within two minutes. */
  size: "small" | "full";
  /** Database kinds that this machine has. */
  kinds: DatabaseKind[];
  /** The same for people, with versions. */
  database: string;
  /** Makes a migrated database with a workspace, a key and the built-in listener. No server runs on it yet. */
  install(kind: DatabaseKind): Promise<Installation>;
}

export interface Installation extends AsyncDisposable {
  kind: DatabaseKind;
  databaseUrl: string | undefined;
  dataDir: string;
  adminKey: string;
  workspaceId: string;
  listenerId: string;
  /** The embedded database allows one opener at a time, so close it before a server starts. */
  open(): Promise<{ db: Db; sealer: Sealer; close(): Promise<void> }>;
  start(role: "server" | "api", environment?: Record<string, string>): Promise<BenchServer>;
}

export interface BenchServer {
  url: string;
  port: number;
  usage(): Promise<Usage>;
  /** Returns resident bytes after a garbage collection, which costs the server CPU. */
  memory(): Promise<number>;
  /** Returns the first row of a query that the server runs on its own database. */
  row<T>(text: string): Promise<T>;
  /** Lets the server write events: at a rate per second, as fast as it can, or reading each back at once (milliseconds). */
  writeEvents(count: number, perS: number): Promise<WrittenEvent[]>;
  writeManyEvents(count: number): Promise<number[]>;
  readBack(count: number): Promise<number[]>;
  stop(): Promise<void>;
}

const cacheDir = path.resolve("node_modules/.cache/pierhead");

/** @param databaseUrl PostgreSQL to use instead of starting one. Its user must be allowed to create databases. */
export async function startBenchRun(size: "small" | "full", databaseUrl: string | undefined): Promise<BenchRun> {
  await ensureTemplate(cacheDir);
  // With fsync, because a create that need not reach the disk would measure something else.
  const postgres: Pick<PostgresServer, "url" | "stop"> | undefined =
    databaseUrl === undefined
      ? await startPostgresServer({ durable: true })
      : { url: databaseUrl, stop: async () => undefined };
  return {
    size,
    kinds: postgres === undefined ? ["embedded"] : ["postgres", "embedded"],
    database: [...(postgres === undefined ? [] : [await versionOf(postgres.url)]), "embedded database"].join(" and "),
    install: (kind) => install(kind === "embedded" ? undefined : (postgres as { url: string })),
    [Symbol.asyncDispose]: toBeEnded(async () => postgres?.stop()),
  };
}

async function versionOf(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query("show server_version").finally(() => client.end());
  return `PostgreSQL ${rows[0].server_version.split(" ")[0]}`;
}

async function install(postgres: { url: string } | undefined): Promise<Installation> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-bench-"));
  const made = postgres === undefined ? undefined : await createDatabase(postgres.url);
  const environment = {
    PORT: "0",
    PIERHEAD_DATA_DIR: dataDir,
    PIERHEAD_CACHE_DIR: cacheDir,
    PIERHEAD_DATABASE_TEMPLATE_DIR: cacheDir,
    // Counts requests but never limits them.
    PIERHEAD_RATE_LIMIT: "1000000",
    PIERHEAD_RATE_LIMIT_BURST: "1000000",
    PIERHEAD_LOG_LINES_PER_S: "0",
    PIERHEAD_ADMIN_KEY: `bench-${randomUUID()}`,
    ...(made === undefined ? {} : { DATABASE_URL: made.url }),
  };
  const config = readConfig(environment);
  const open = async () => {
    const logger = createLogger("warn");
    const db = await openDatabase({ databaseUrl: made?.url, dataDir, logger, templateDirectory: cacheDir });
    await migrate(db);
    const sealer = await openSealer(db, await readOrCreateMasterKey(path.join(dataDir, "master.key")));
    const close = async () => {
      sealer.close();
      await db.close();
    };
    return { db, sealer, close };
  };
  const first = await open();
  const { workspaceId, listenerId } = await bootstrap(first.db, config);
  await first.close();
  return {
    kind: made === undefined ? "embedded" : "postgres",
    databaseUrl: made?.url,
    dataDir,
    adminKey: environment.PIERHEAD_ADMIN_KEY,
    workspaceId,
    listenerId,
    open,
    start: (role, more = {}) =>
      startServerProcess(role, { dataDir, tenantId: workspaceId }, { ...environment, ...more }),
    [Symbol.asyncDispose]: toBeEnded(async () => {
      await made?.drop();
      await rm(dataDir, { recursive: true, force: true });
    }),
  };
}

/** Copies the embedded database for a second program that works on the same rows. @returns the copy's data directory. */
export async function copyEmbedded(installation: Installation): Promise<string> {
  const copy = path.join(installation.dataDir, "copy");
  await cp(path.join(installation.dataDir, "database"), path.join(copy, "database"), { recursive: true });
  return copy;
}

async function createDatabase(serverUrl: string): Promise<{ url: string; drop(): Promise<void> }> {
  const name = `bench_${randomUUID().replaceAll("-", "")}`;
  const administrate = async (statement: string) => {
    const client = new pg.Client({ connectionString: serverUrl });
    await client.connect();
    await client.query(statement).finally(() => client.end());
  };
  await administrate(`create database ${name}`);
  return {
    url: serverUrl.replace(/\/[^/]*$/, `/${name}`),
    drop: () => administrate(`drop database ${name} with (force)`),
  };
}

/** The server logs to a file at the default level, because writing the log is part of a request's cost. */
async function startServerProcess(
  role: string,
  { dataDir, tenantId }: { dataDir: string; tenantId: string },
  environment: Record<string, string>,
): Promise<BenchServer> {
  const logFile = path.join(dataDir, "server.log");
  const log = openSync(logFile, "a");
  const child = fork(fileURLToPath(new URL("server-process.ts", import.meta.url)), [role], {
    execArgv: [...process.execArgv, ...serverNodeFlags],
    env: { ...process.env, DATABASE_URL: undefined, ...environment },
    stdio: ["ignore", log, log, "ipc"],
  });
  closeSync(log);
  const ended = once(child, "exit");
  const url = await Promise.race([firstMessage<{ url: string }>(child).then((message) => message.url), ended]);
  if (typeof url !== "string") {
    throw new Error(`the server ended before it was ready:\n${(await readFile(logFile, "utf8")).slice(-4_000)}`);
  }
  return {
    url,
    port: Number(new URL(url).port),
    usage: () => ask<Usage>(child, { ask: "usage" }),
    memory: () => ask<number>(child, { ask: "memory" }),
    row: <T>(text: string) => ask<T>(child, { ask: "row", text }),
    writeEvents: (count, perS) => ask(child, { ask: "writeEvents", tenantId, count, perS }),
    writeManyEvents: (count) => ask(child, { ask: "writeManyEvents", tenantId, count }),
    readBack: (count) => ask(child, { ask: "readBack", tenantId, count }),
    stop: toBeEnded(async () => {
      if (child.connected) child.disconnect();
      await ended;
    }),
  };
}

function ask<T>(child: ChildProcess, question: Question): Promise<T> {
  const reply = firstMessage<T>(child);
  child.send(question);
  return reply;
}

async function firstMessage<T>(child: ChildProcess): Promise<T> {
  const [message] = await once(child, "message");
  return message as T;
}
