import pg from "pg";
import { type DatabaseCredentials, type DatabaseServer, urlFor } from "./database-server.ts";
import { asAdmin } from "./postgres-admin.ts";
import { restoreLoginOf } from "./restore-login.ts";
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
        for (const role of [restoreLoginOf(name), name])
          await client.query(`drop role if exists ${pg.escapeIdentifier(role)}`);
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
  // Every role may connect to template1, and its copy fails as long as one is connected, or contains what agents left there.
  if (made.rowCount === 0) await client.query(`create database ${role} owner ${role} template template0`);
  await client.query(`revoke all on database ${role} from public`);
}

/** Adds pgvector for the vector search of agent servers. Skips it if it is not installed or we may not add it. */
async function addExtensions(client: pg.Client): Promise<void> {
  const { rowCount } = await client.query(
    `select 1 from pg_available_extensions e, pg_roles r, pg_namespace n
      where e.name = 'vector' and r.rolname = current_user and r.rolsuper and n.nspname = 'public'`,
  );
  if (rowCount === 0) return;
  // A database that is being moved is read-only, and its agent may still be deployed or restarted.
  await client.query("set default_transaction_read_only = off");
  await client.query("create extension if not exists vector with schema public");
}
