import pg from "pg";
import type { Settings } from "../settings.ts";

/** Runs one statement. `@name` in its text is a table of the engine's schema. */
export type Query = <Row extends object = Record<string, unknown>>(text: string, values?: unknown[]) => Promise<Row[]>;

const connectTimeoutMs = 5_000;
/** No statement of the engine takes longer, unless the database is stalled. */
const statementTimeoutMs = 30_000;

export interface Database {
  readonly schema: string;
  readonly query: Query;
  /** The pool that the checkpoint library uses. */
  readonly pool: pg.Pool;
  /** Runs the statements of `act` in one transaction. A serialization failure or deadlock is tried once more. */
  transaction<T>(act: (query: Query) => Promise<T>): Promise<T>;
  /** Returns the text with the names of the schema's tables. */
  named(text: string): string;
  close(): Promise<void>;
}

export function openDatabase(settings: Settings, onError: (error: Error) => void): Database {
  const pool = new pg.Pool({
    connectionString: settings.connectionString,
    max: settings.maxConnections,
    connectionTimeoutMillis: connectTimeoutMs,
    idleTimeoutMillis: 30_000,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + 5_000,
    application_name: `langgraph-js-postgres ${settings.schema}`,
    keepAlive: true,
  });
  // Without a listener, an idle connection that breaks would end the process.
  pool.on("error", onError);
  const named = (text: string) => text.replace(/@([a-z]\w*)/g, `"${settings.schema}"."$1"`);
  const on =
    (client: pg.Pool | pg.PoolClient): Query =>
    async (text, values = []) =>
      (await client.query(named(text), values)).rows;
  const once = async <T>(act: (query: Query) => Promise<T>): Promise<T> => {
    const client = await pool.connect();
    let broken: Error | undefined;
    try {
      await client.query("begin");
      const result = await act(on(client));
      await client.query("commit");
      return result;
    } catch (error) {
      await client.query("rollback").catch((failure: Error) => {
        broken = failure;
      });
      throw error;
    } finally {
      client.release(broken);
    }
  };
  return {
    schema: settings.schema,
    pool,
    named,
    query: on(pool),
    transaction: (act) => once(act).catch((error: unknown) => (isConflict(error) ? once(act) : Promise.reject(error))),
    close: () => pool.end(),
  };
}

/** Whether a transaction lost against another one and can be tried again: serialization failure or deadlock. */
const isConflict = (error: unknown) => ["40001", "40P01"].includes(codeOf(error) ?? "");

/** Whether the database could not be reached or was restarting, so that the statement can be tried again. */
function isUnavailable(error: unknown): boolean {
  if (/^(08|53|57|58)/.test(codeOf(error) ?? "")) return true;
  if (["ECONNREFUSED", "ECONNRESET", "EPIPE", "ENOENT", "ETIMEDOUT"].includes(codeOf(error) ?? "")) return true;
  return /connection terminated|timeout|connection error/i.test(String((error as Error | undefined)?.message));
}

/**
 * Repeats a statement that can be repeated while the database is unavailable.
 * @param check throws when nothing is to be gained any more. Without it, the statement is repeated for 20 seconds.
 */
export async function repeated<T>(act: () => Promise<T>, check?: () => void): Promise<T> {
  const until = performance.now() + 20_000;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (!isUnavailable(error) || (check === undefined && performance.now() > until)) throw error;
      check?.();
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

const codeOf = (error: unknown) => (error as { code?: string } | undefined)?.code;
