import { randomBytes } from "node:crypto";
import pg from "pg";
import { asAdmin } from "./postgres-admin.ts";
import { scramVerifier } from "./scram-verifier.ts";

/** Role that restores the database of `name`. */
export const restoreLoginOf = (name: string): string => `${name}_restore`;

/**
 * Runs `act` with the credentials of a login that has the rights of a database's owner and no others. Restoring runs functions of the
 * agent (constraints, generated columns), and a function can give up the role that a session of the operator has taken with `SET ROLE`.
 * @param at.adminUrl URL of the role that creates databases
 * @param at.name of the database and of its owner role
 * @throws DatabaseServerError
 */
export async function withRestoreLogin<T>(
  { adminUrl, name, signal }: { adminUrl: string; name: string; signal: AbortSignal },
  act: (login: { username: string; password: string }) => Promise<T>,
): Promise<T> {
  const admin = new URL(adminUrl);
  const [login, owner] = [restoreLoginOf(name), name].map((role) => pg.escapeIdentifier(role)) as [string, string];
  const password = randomBytes(32).toString("base64url");
  await asAdmin(admin, undefined, signal, async (client) => {
    const { rowCount } = await client.query("select 1 from pg_roles where rolname = $1", [restoreLoginOf(name)]);
    if (rowCount === 0) await client.query(`create role ${login}`);
    await client.query(`grant ${owner} to ${login}`);
    await client.query(`grant ${login} to current_user`);
    await client.query(`alter role ${login} with login password ${pg.escapeLiteral(scramVerifier(password))}`);
  });
  try {
    return await act({ username: restoreLoginOf(name), password });
  } finally {
    await remove().catch(() => undefined);
  }

  /** What is left of it goes with the next restore or with the database. */
  async function remove(): Promise<void> {
    const ending = AbortSignal.timeout(endTimeoutMs);
    await asAdmin(admin, undefined, ending, async (client) => {
      await client.query(`alter role ${login} with nologin`);
    });
    await asAdmin(admin, name, ending, async (client) => {
      await client.query("set default_transaction_read_only = off");
      await client.query(`reassign owned by ${login} to ${owner}`);
      await client.query(`drop owned by ${login}`);
      await client.query(`drop role ${login}`);
    });
  }
}

const endTimeoutMs = 10_000;
