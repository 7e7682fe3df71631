import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import {
  connectTimeoutMs,
  type DatabaseCredentials,
  type DatabaseServer,
  DatabaseServerError,
  type DatabaseSpec,
  serverTimeoutMs,
} from "./database-server.ts";

/** A driver that runs service containers, for example in a Docker engine. */
export interface DatabaseContainers {
  hostOf(name: string): string;
  ensure(container: DatabaseContainer, signal: AbortSignal): Promise<{ host: string; port: number }>;
  /** Returns the last output of a container that does not stay up; null: it is running. */
  failureOutput(name: string): Promise<string | null>;
  remove(name: string): Promise<void>;
}

export interface DatabaseContainer {
  name: string;
  tenantId: string;
  image: string;
  command: string[];
  env: Record<string, string>;
  files: Record<string, string>;
  volumeDirectory: string;
  port: number;
  stopSignal: string;
  cpuLimitCores: number;
  memoryLimitMib: number;
}

export interface ContainerOptions {
  containers: DatabaseContainers;
  /** An image that is compatible with the official one: it reads the same variables and accepts a command. */
  image: string;
}

/** Shared buffers of PostgreSQL: a quarter of its memory, as its manual recommends. */
const sharedBuffersShare = 1 / 4;

/** Redis needs memory besides its data, for client buffers and for copies while it rewrites its file. */
const redisDataShare = 3 / 4;

/** How long one call waits for a start in progress before other deployments get their turn. */
const startTimeoutMs = 15_000;
const tryAgainMs = 100;

/**
 * Returns a server that creates one PostgreSQL container with its own volume per deployment. The deployment's user is the
 * superuser of that PostgreSQL, which no other deployment uses.
 */
export function containerPostgres({ containers, image }: ContainerOptions): DatabaseServer {
  return {
    async ensure(credentials, spec, signal) {
      const { name, password } = credentials;
      const sharedBuffersMib = Math.floor(spec.memoryLimitMib * sharedBuffersShare);
      const settings = [`max_connections=${spec.connectionsMax}`, `shared_buffers=${sharedBuffersMib}MB`];
      const container = {
        ...containerOf("postgres", image, credentials, spec),
        command: ["postgres", ...settings.flatMap((setting) => ["-c", setting])],
        env: { POSTGRES_USER: name, POSTGRES_PASSWORD: password, POSTGRES_DB: name, PGDATA: `${directory}/data` },
        files: {},
        volumeDirectory: directory,
        port: 5432,
        // SIGINT closes connections; SIGTERM would wait for clients to close them.
        stopSignal: "SIGINT",
      };
      await start(containers, container, signal, ({ host, port }) => askPostgres({ host, port, name, password }));
    },
    remove: (name) => removeContainer(containers, postgresContainerOf(name)),
    environment({ name, password }) {
      const uri = `postgresql://${name}:${password}@${containers.hostOf(postgresContainerOf(name))}:5432/${name}`;
      return { DATABASE_URI: uri, POSTGRES_URI: uri };
    },
  };
}

/** Returns a server that creates one Redis container with its own volume per deployment. */
export function containerRedis({ containers, image }: ContainerOptions): DatabaseServer {
  return {
    async ensure(credentials, spec, signal) {
      const container = {
        ...containerOf("redis", image, credentials, spec),
        command: ["redis-server", `/${redisFile}`],
        env: {},
        files: { [redisFile]: redisSettings(credentials, spec) },
        volumeDirectory: "/data",
        port: 6379,
        stopSignal: "SIGTERM",
      };
      await start(containers, container, signal, ({ host, port }) =>
        askRedis(`redis://:${credentials.password}@${host}:${port}/0`),
      );
    },
    remove: (name) => removeContainer(containers, `redis-${bare(name)}`),
    environment({ name, password }) {
      return { REDIS_URI: `redis://:${password}@${containers.hostOf(`redis-${bare(name)}`)}:6379/0` };
    },
  };
}

/** Returns the name of a database's container. With its prefix it is a DNS name, of at most 63 characters. */
export const postgresContainerOf = (name: string) => `postgres-${bare(name)}`;
const bare = (name: string) => name.replace(/^ph_/, "");

/** Our own data directory, because the usual one differs between versions of an image. */
const directory = "/var/lib/pierhead";

/** Settings are in a file, because every user of the machine can read the arguments of a process. */
const redisFile = "pierhead-redis.conf";

function redisSettings({ password }: DatabaseCredentials, { memoryLimitMib }: DatabaseSpec): string {
  const lines = {
    requirepass: password,
    dir: "/data",
    appendonly: "yes",
    maxmemory: `${Math.floor(memoryLimitMib * redisDataShare)}mb`,
    // Evicts only keys with an expiry. When memory is full of other keys, writes fail with an error.
    "maxmemory-policy": "volatile-lru",
  };
  return Object.entries(lines)
    .map(([name, value]) => `${name} ${value}\n`)
    .join("");
}

function containerOf(kind: string, image: string, { name }: DatabaseCredentials, spec: DatabaseSpec) {
  const { tenantId, cpuLimitCores, memoryLimitMib } = spec;
  return { name: `${kind}-${bare(name)}`, image, tenantId, cpuLimitCores, memoryLimitMib };
}

/** Starts a container and returns when the database accepts the password. @throws DatabaseServerError */
async function start(
  containers: DatabaseContainers,
  container: DatabaseContainer,
  signal: AbortSignal,
  ask: (address: { host: string; port: number }) => Promise<void>,
): Promise<void> {
  const end = performance.now() + startTimeoutMs;
  try {
    const address = await containers.ensure(container, signal);
    for (;;) {
      const failure = await ask(address).then(() => undefined, messageOf);
      if (failure === undefined) return;
      const failureOutput = await containers.failureOutput(container.name);
      if (failureOutput !== null) throw new Error(`it does not stay up: ${failureOutput || "it wrote no output"}`);
      if (performance.now() >= end) throw new Error(`it does not answer yet: ${failure}`);
      await sleep(tryAgainMs, undefined, { signal });
    }
  } catch (error) {
    signal.throwIfAborted();
    throw containerError(container.name, error);
  }
}

async function removeContainer(containers: DatabaseContainers, name: string): Promise<void> {
  await containers.remove(name).catch((error: unknown) => {
    throw containerError(name, error);
  });
}

/** A missing image is final: retrying does not help. */
function containerError(name: string, error: unknown): DatabaseServerError {
  const isFinal = error instanceof Error && error.name === "UnusableSpec";
  return new DatabaseServerError(`container ${name}: ${messageOf(error)}`, { cause: error }, isFinal);
}

const messageOf = (error: unknown) =>
  error instanceof Error ? error.message || ((error as NodeJS.ErrnoException).code ?? error.name) : String(error);

async function askPostgres(to: { host: string; port: number; name: string; password: string }): Promise<void> {
  const { host, port, name, password } = to;
  const client = new pg.Client({
    host,
    port,
    user: name,
    database: name,
    password,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: serverTimeoutMs,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("select 1");
  } finally {
    await client.end().catch(() => {});
  }
}

async function askRedis(url: string): Promise<void> {
  const { createClient } = await import("@redis/client");
  const client = createClient({
    url,
    socket: { connectTimeout: connectTimeoutMs, reconnectStrategy: false, socketTimeout: serverTimeoutMs },
    disableOfflineQueue: true,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.ping();
  } finally {
    if (client.isOpen) client.destroy();
  }
}
