import { type Clock, jitteredBackoffMs, sleep } from "../../base/clock.ts";
import { CallRefused, type ListenerSession } from "../../client/listener-client.ts";
import type { RevisionRun } from "../../contract/listeners/assignment.ts";
import { usualDatabaseParts } from "../../domain/database-parts.ts";

/** Restarts of crashed replicas use the cache. 256 sets of 4 KiB take 1 MiB. A larger fleet that restarts asks again. */
const setsMax = 256;

/** Values are removed from memory when no start has used them for this long. */
const cacheMs = 600_000;

const retryBounds = { firstMs: 500, maxMs: 30_000 };

/** The secret sets that starts need. They stay in this process's memory and are never logged. */
export class Secrets {
  readonly #session: () => ListenerSession | null;
  readonly #clock: Clock;
  readonly #cache = new Map<string, { values: Record<string, string>; atMs: number }>();

  constructor(options: { session: () => ListenerSession | null; clock: Clock }) {
    this.#session = options.session;
    this.#clock = options.clock;
  }

  /**
   * Returns the values of a secret set. Waits while the control plane cannot be reached, which is no failure of the revision.
   * @throws CallRefused when the set does not exist; the reason of `signal`.
   */
  async read(deploymentId: string, secretSetId: string | null, signal: AbortSignal): Promise<Record<string, string>> {
    if (secretSetId === null) return {};
    for (let attempt = 1; ; attempt++) {
      this.#evict();
      const cached = this.#cache.get(secretSetId);
      if (cached !== undefined) return this.#save(secretSetId, cached.values);
      const values = await this.#fetch(deploymentId, secretSetId, signal);
      if (values !== null) return this.#save(secretSetId, values);
      await sleep(this.#clock, jitteredBackoffMs(this.#clock, attempt, retryBounds), signal);
    }
  }

  clear(): void {
    this.#cache.clear();
  }

  /** Returns null if no session is open or the call failed. */
  async #fetch(deploymentId: string, secretSetId: string, signal: AbortSignal): Promise<Record<string, string> | null> {
    try {
      return (await this.#session()?.secrets(deploymentId, secretSetId, signal)) ?? null;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof CallRefused && error.status === 404) throw error;
      return null;
    }
  }

  #save(secretSetId: string, values: Record<string, string>): Record<string, string> {
    // The map's order is the order of last use.
    this.#cache.delete(secretSetId);
    this.#cache.set(secretSetId, { values, atMs: this.#clock.monotonicMs() });
    return values;
  }

  #evict(): void {
    for (const [secretSetId, { atMs }] of this.#cache) {
      if (this.#cache.size <= setsMax && this.#clock.monotonicMs() - atMs < cacheMs) return;
      this.#cache.delete(secretSetId);
    }
  }
}

/**
 * Returns the environment of a replica. Variables of the control plane win over the deployment's own (contract 7.2). The
 * driver chooses PORT, and PATH belongs to the machine or image.
 */
export function replicaEnvironment(
  secrets: Record<string, string>,
  { env, artifact }: Pick<RevisionRun, "env" | "artifact">,
): Record<string, string> {
  const { PORT: _port, PATH: _path, ...values } = givenVariables(secrets, { env, artifact });
  return { ...values, ...env };
}

/**
 * Returns the variables of a deployment, with those that it gets unless it sets them: the addresses of its database, and PUBLIC_URL
 * and PUBLIC_HOST, which a deployment behind another proxy may set itself.
 */
export function givenVariables(
  secrets: Record<string, string>,
  { env, artifact }: Pick<RevisionRun, "env" | "artifact">,
): Record<string, string> {
  const { LANGGRAPH_API_URL: url } = env;
  return { ...(url === undefined ? {} : addressVariables(url)), ...withDatabaseUrl(secrets, artifact) };
}

/**
 * Adds the names by which a project asks for its database, with the address that Pierhead gave or was given: DATABASE_URL, and the
 * parts of the address in variables of their own. What the deployment sets stays.
 */
function withDatabaseUrl(secrets: Record<string, string>, artifact: RevisionRun["artifact"]): Record<string, string> {
  const { DATABASE_URI: database } = secrets;
  if (database === undefined) return secrets;
  return {
    ...(asksForDatabase(artifact) ? { DATABASE_URL: database } : {}),
    ...addressesFor(database, artifact.database_schemes),
    ...partsFor(database, artifact, secrets),
    ...secrets,
  };
}

/** SQLAlchemy takes the driver from the scheme, so an address without the driver of the project does not work. */
const addressesFor = (database: string, schemes: Record<string, string> = {}) =>
  Object.fromEntries(
    Object.entries(schemes).map(([name, scheme]) => [name, database.replace(/^postgres(?:ql)?(?=:)/, scheme)]),
  );

/**
 * Returns the parts of the address in the variables that the project has for them, unless the deployment names another database: by its
 * host, by another user or password, which this server would refuse, or in DATABASE_URL.
 */
function partsFor(
  database: string,
  { variables = [], database_parts: named }: RevisionRun["artifact"],
  secrets: Record<string, string>,
): Record<string, string> {
  // Older artifacts name no parts.
  const wanted = Object.entries(named ?? (variables.includes("POSTGRES_HOST") ? usualDatabaseParts : {}));
  const parts = partsOf(database);
  const namesOther = ([name, part]: [string, string]) =>
    name in secrets && (part === "host" || (/^(?:user|password)$/.test(part) && secrets[name] !== parts[part]));
  if ("DATABASE_URL" in secrets || wanted.some(namesOther)) return {};
  return Object.fromEntries(
    wanted.flatMap(([name, part]) => {
      const value = parts[part];
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}

function partsOf(database: string): Record<string, string> {
  if (!URL.canParse(database)) return {};
  const { hostname, port, username, password, pathname } = new URL(database);
  // A socket of this machine has no host in its address.
  if (hostname === "") return {};
  return {
    host: hostname,
    port: port === "" ? "5432" : port,
    user: decoded(username),
    password: decoded(password),
    name: decoded(pathname.slice(1)),
  };
}

/** A user's own address may have a `%` that stands for itself. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * Whether the project reads the address of its database from DATABASE_URL, as on most other hosts. A project that does not ask for it
 * may have another database as its default, which the variable would replace.
 */
export const asksForDatabase = ({ variables = [] }: RevisionRun["artifact"]): boolean =>
  variables.includes("DATABASE_URL");

/** `vite preview` answers 403 for hosts that neither its configuration nor this variable names. */
const addressVariables = (url: string) => ({
  PUBLIC_URL: url,
  ...(URL.canParse(url)
    ? { PUBLIC_HOST: new URL(url).hostname, __VITE_ADDITIONAL_SERVER_ALLOWED_HOSTS: new URL(url).hostname }
    : {}),
});
