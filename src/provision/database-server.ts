/** Name of a database and of its owner role, and the password of that role. Generated once per deployment. */
export interface DatabaseCredentials {
  /** `ph_` and the deployment's id in 32 hex digits, so it needs no quoting anywhere. */
  name: string;
  password: string;
}

/** Workspace and size of a database. A shared server enforces only the limit of connections. */
export interface DatabaseSpec {
  tenantId: string;
  connectionsMax: number;
  cpuLimitCores: number;
  memoryLimitMib: number;
}

/** A server that gives each deployment its own data: a PostgreSQL database, a key prefix in Redis, or a container. */
export interface DatabaseServer {
  /**
   * Creates the database and its role, or sets the password and limits of existing ones. Idempotent. Returns when the
   * database accepts connections.
   * @throws DatabaseServerError
   */
  ensure(credentials: DatabaseCredentials, spec: DatabaseSpec, signal: AbortSignal): Promise<void>;
  /**
   * Closes its connections and deletes it with all data. A missing one is no error.
   * @throws DatabaseServerError
   */
  remove(name: string, signal: AbortSignal): Promise<void>;
  /** Returns the variables of the agent server (contract 7.2). They contain secrets. */
  environment(credentials: DatabaseCredentials): Record<string, string>;
}

/** The server is unreachable or refused. `message` contains its address and the reason, but no credentials. */
export class DatabaseServerError extends Error {
  override readonly name = "DatabaseServerError";
  /** Retrying does not help until the operator changes something. */
  readonly isFinal: boolean;

  constructor(message: string, options?: ErrorOptions, isFinal = false) {
    super(message, options);
    this.isFinal = isFinal;
  }
}

export const databaseNameOf = (deploymentId: string): string => `ph_${deploymentId.replaceAll("-", "")}`;

/** Maximum time for one server to answer. The reconciler retries later. */
export const serverTimeoutMs = 30_000;
export const connectTimeoutMs = 10_000;

/** Returns the address of a URL for messages, without user and password. */
export function displayAddress(url: URL): string {
  return `${decodeURIComponent(url.hostname)}${url.port === "" ? "" : `:${url.port}`}`;
}

/** Returns the admin URL with another user and database, and with the address that agents use. */
export function urlFor(
  admin: URL,
  other: { username: string; password: string; path: string; address: string | undefined },
): string {
  const url = new URL(admin);
  url.username = other.username;
  url.password = other.password;
  url.pathname = other.path;
  if (other.address !== undefined) url.host = other.address;
  return url.href;
}
