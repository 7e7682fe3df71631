/** Name of a database and of the role that owns it, and that role's password. Made once per deployment. */
export interface DatabaseCredentials {
  /** `ph_` and the deployment's id in 32 hex digits: needs no quoting anywhere. */
  name: string;
  password: string;
}

/** For whom, and how large. A server that many share knows limits of connections only. */
export interface DatabaseSpec {
  tenantId: string;
  connectionsMax: number;
  cpuLimitCores: number;
  memoryLimitMib: number;
}

/** Where deployments get something of their own: a database of PostgreSQL, keys of Redis, or a whole server. */
export interface DatabaseServer {
  /**
   * Makes what is not there and sets what is there to this password and these limits; repeating it is safe. Returns when
   * it can be used.
   * @throws DatabaseServerError
   */
  ensure(credentials: DatabaseCredentials, spec: DatabaseSpec, signal: AbortSignal): Promise<void>;
  /**
   * Ends its connections and drops it with everything in it; what is gone already is no error.
   * @throws DatabaseServerError
   */
  remove(name: string, signal: AbortSignal): Promise<void>;
  /** Variables of the agent server (contract 7.2). Secret. */
  environment(credentials: DatabaseCredentials): Record<string, string>;
}

/** The server is away or refused: `message` says which and why, without credentials. */
export class DatabaseServerError extends Error {
  override readonly name = "DatabaseServerError";
  /** Trying again will not help before the operator has changed something. */
  readonly isFinal: boolean;

  constructor(message: string, options?: ErrorOptions, isFinal = false) {
    super(message, options);
    this.isFinal = isFinal;
  }
}

export const databaseNameOf = (deploymentId: string): string => `ph_${deploymentId.replaceAll("-", "")}`;

/** A server that does not answer is asked again later; nobody waits for it longer than this. */
export const serverTimeoutMs = 30_000;
export const connectTimeoutMs = 10_000;

/** The address of a URL as a person may read it: no user, no password. */
export function displayAddress(url: URL): string {
  return `${decodeURIComponent(url.hostname)}${url.port === "" ? "" : `:${url.port}`}`;
}

/** The same URL for somebody else: another user, another database, and the address that agents reach it under. */
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
