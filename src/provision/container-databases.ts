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

/** What keeps containers running; a driver of a container engine does. */
export interface DatabaseContainers {
  hostOf(name: string): string;
  ensure(container: DatabaseContainer, signal: AbortSignal): Promise<{ host: string; port: number }>;
  /** What it wrote last, when it does not stay up; null: it does. */
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
  /** As the official one of its kind: it reads the same variables, and begins with the command it is given. */
  image: string;
}

/** Shared buffers of PostgreSQL: a quarter of its memory, as its manual advises. */
const sharedBuffersShare = 1 / 4;

/** Redis needs room beside its data: buffers of clients, and copies while it writes its file anew. */
const redisDataShare = 3 / 4;

/** How long a start that goes on is waited for before others get their turn. */
const startTimeoutMs = 15_000;
const tryAgainMs = 100;

/**
 * A PostgreSQL server for each deployment, in a container with a volume of its own. The deployment's user is the
 * superuser of that server, which is nobody else's.
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
        // Ends its connections; SIGTERM would wait for them.
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

/** A Redis server for each deployment, in a container with a volume of its own. */
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

/** Of the container that a database is in: with what stands before it a DNS name, of at most 63 characters. */
export const postgresContainerOf = (name: string) => `postgres-${bare(name)}`;
const bare = (name: string) => name.replace(/^ph_/, "");

/** Whatever an image has at its usual place differs between versions. */
const directory = "/var/lib/pierhead";

/** In a file, because everybody may read the arguments of a process. */
const redisFile = "pierhead-redis.conf";

function redisSettings({ password }: DatabaseCredentials, { memoryLimitMib }: DatabaseSpec): string {
  const lines = {
    ...{ requirepass: password, dir: "/data", appendonly: "yes" },
    maxmemory: `${Math.floor(memoryLimitMib * redisDataShare)}mb`,
    // What was meant to be kept is kept; without room for it the writer is told.
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

/** Returns when it takes the password. @throws DatabaseServerError */
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
      const failure = await ask(address).then(() => undefined, wordsOf);
      if (failure === undefined) return;
      const failureOutput = await containers.failureOutput(container.name);
      if (failureOutput !== null) throw new Error(`it does not stay up: ${failureOutput || "it says nothing"}`);
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

/** An image that no registry has is not there next time, either. */
function containerError(name: string, error: unknown): DatabaseServerError {
  const isFinal = error instanceof Error && error.name === "UnusableSpec";
  return new DatabaseServerError(`container ${name}: ${wordsOf(error)}`, { cause: error }, isFinal);
}

const wordsOf = (error: unknown) =>
  error instanceof Error ? error.message || ((error as NodeJS.ErrnoException).code ?? error.name) : String(error);

async function askPostgres(to: { host: string; port: number; name: string; password: string }): Promise<void> {
  const { host, port, name, password } = to;
  const client = new pg.Client({
    ...{ host, port, user: name, database: name, password },
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
