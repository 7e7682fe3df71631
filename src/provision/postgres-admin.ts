import pg from "pg";
import { connectTimeoutMs, DatabaseServerError, displayAddress, serverTimeoutMs } from "./database-server.ts";

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
    await client.query("set search_path = pg_catalog");
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
