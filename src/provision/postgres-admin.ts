import pg from "pg";
import { withConnection } from "./admin-connection.ts";
import { connectTimeoutMs, serverTimeoutMs } from "./database-server.ts";

/**
 * Opens one connection of the operator for one task. Names mean PostgreSQL's own objects only: an agent chooses the search path of its
 * database, and in every database that it can connect to it may have created functions, which would run with the operator's rights.
 * @param database undefined: the one in the admin URL
 * @throws DatabaseServerError
 */
export async function asAdmin(
  admin: URL,
  database: string | undefined,
  signal: AbortSignal,
  act: (client: pg.Client) => Promise<void>,
): Promise<void> {
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
  const connection = { open: () => client.connect(), close: () => client.end() };
  await withConnection({ kind: "PostgreSQL", url: admin }, connection, signal, async () => {
    await client.query("set search_path = pg_catalog");
    await act(client);
  });
}
