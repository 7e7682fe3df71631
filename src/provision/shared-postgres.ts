import pg from "pg";
import {
  connectTimeoutMs,
  type DatabaseCredentials,
  type DatabaseServer,
  DatabaseServerError,
  displayAddress,
  serverTimeoutMs,
  urlFor,
} from "./database-server.ts";
import { scramVerifier } from "./scram-verifier.ts";

/**
 * Returns a server that gives each deployment its own database on the operator's PostgreSQL. Only its owner may connect.
 * @param options.adminUrl URL of a role that may create roles and databases
 * @param options.address `host:port` of the server for agents; undefined: the one in `adminUrl`
 */
export function sharedPostgres(options: { adminUrl: string; address: string | undefined }): DatabaseServer {
  const admin = new URL(options.adminUrl);
  return {
    async ensure(credentials, limits, signal) {
      await asAdmin(admin, undefined, signal, (client) => ensureDatabase(client, credentials, limits));
      await asAdmin(admin, credentials.name, signal, addExtensions);
    },
    async remove(name, signal) {
      await asAdmin(admin, undefined, signal, async (client) => {
        await client.query(`drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
        await client.query(`drop role if exists ${pg.escapeIdentifier(name)}`);
      });
    },
    environment({ name, password }) {
      const uri = urlFor(admin, { username: name, password, path: name, address: options.address });
      return { DATABASE_URI: uri, POSTGRES_URI: uri };
    },
  };
}

async function ensureDatabase(
  client: pg.Client,
  { name, password }: DatabaseCredentials,
  { connectionsMax }: { connectionsMax: number },
): Promise<void> {
  const role = pg.escapeIdentifier(name);
  const known = await client.query("select 1 from pg_roles where rolname = $1", [name]);
  if (known.rowCount === 0) await client.query(`create role ${role}`);
  // Only the right to log in: revoking rights that the role never had would require a superuser.
  const verifier = pg.escapeLiteral(scramVerifier(password));
  await client.query(`alter role ${role} with login connection limit ${connectionsMax} password ${verifier}`);
  // Only a member of a role may make it the owner of a database. A superuser counts as a member of every role.
  const { rows } = await client.query<{ is_member: boolean }>("select pg_has_role($1, 'member') as is_member", [name]);
  if (rows[0]?.is_member !== true) await client.query(`grant ${role} to current_user`);
  const made = await client.query("select 1 from pg_database where datname = $1", [name]);
  if (made.rowCount === 0) await client.query(`create database ${role} owner ${role}`);
  await client.query(`revoke all on database ${role} from public`);
}

/** Adds pgvector for the vector search of agent servers. Skips it if it is not installed or we may not add it. */
async function addExtensions(client: pg.Client): Promise<void> {
  const { rowCount } = await client.query(
    `select 1 from pg_available_extensions e, pg_roles r
      where e.name = 'vector' and r.rolname = current_user and r.rolsuper`,
  );
  if (rowCount === 0) return;
  // A database that is being moved is read-only, and its agent may still be deployed or restarted.
  await client.query("set default_transaction_read_only = off");
  await client.query("create extension if not exists vector");
}

/** Opens one connection for one task. `database` undefined: the database in the admin URL. */
async function asAdmin(
  admin: URL,
  database: string | undefined,
  signal: AbortSignal,
  act: (client: pg.Client) => Promise<void>,
): Promise<void> {
  signal.throwIfAborted();
  const url = new URL(admin);
  if (database !== undefined) url.pathname = database;
  const client = new pg.Client({
    connectionString: url.href,
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: serverTimeoutMs,
    query_timeout: serverTimeoutMs + 1_000,
    application_name: "pierhead provision",
  });
  // An error event follows the failure of the query itself, which is reported.
  client.on("error", () => {});
  const onAbort = () => void client.end().catch(() => {});
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await client.connect();
    await act(client);
  } catch (error) {
    signal.throwIfAborted();
    const reason = error instanceof Error ? error.message || (error as NodeJS.ErrnoException).code : String(error);
    throw new DatabaseServerError(`PostgreSQL at ${displayAddress(admin)}: ${reason}`, { cause: error });
  } finally {
    signal.removeEventListener("abort", onAbort);
    await client.end().catch(() => {});
  }
}
