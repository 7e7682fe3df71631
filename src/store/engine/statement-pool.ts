import { AsyncLocalStorage } from "node:async_hooks";
import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from "kysely";
import type pg from "pg";
import { isConflict, sqlState } from "./database-errors.ts";

/**
 * The most statement texts that get a name, so that each connection parses and plans them once (about twice as fast).
 * The store has about a hundred. Beyond this limit, texts that never repeat must not fill the memory of server and client.
 */
const namedStatementsMax = 500;

const triesMax = 5;

/** read_only_sql_transaction */
const readOnly = "25006";

/** Set while a transaction's callback runs. */
const transactions = new AsyncLocalStorage<{ isRunning: boolean; timeoutMs: number | undefined }>();

/** Runs the callback of a transaction so that a request for a second connection fails instead of waiting without end. */
export async function insideTransaction<T>(
  limits: { timeoutMs: number | undefined },
  act: () => Promise<T>,
): Promise<T> {
  const state = { isRunning: true, timeoutMs: limits.timeoutMs };
  try {
    return await transactions.run(state, act);
  } finally {
    state.isRunning = false;
  }
}

/** Runs `act` outside of the current transaction, for example to wake subscribers. */
export function outsideTransaction<T>(act: () => T): T {
  return transactions.exit(act);
}

/** @throws Error while a transaction's callback runs: its statements must go through its `trx`. */
export function refuseInsideTransaction(): void {
  if (transactions.getStore()?.isRunning === true) {
    throw new Error("a second connection was requested inside a transaction: pass trx instead of db");
  }
}

/** @throws Error when a function that joins the current transaction asks for a limit that this transaction does not have. */
export function refuseOtherLimit({ timeoutMs }: { timeoutMs?: number }): void {
  if (timeoutMs === undefined || timeoutMs === transactions.getStore()?.timeoutMs) return;
  throw new Error(`a limit of ${timeoutMs} ms has no effect inside a unit: pass it to the enclosing atomically`);
}

/**
 * Adapts the pool for kysely: each statement with parameters becomes a named prepared one.
 * @param answered wraps every request to the database.
 */
export function statementPool(pool: pg.Pool, answered: Answered = (ask) => ask()): PostgresPool {
  const names = new Map<string, string>();
  const nameOf = (text: string) => {
    const known = names.get(text);
    if (known !== undefined || names.size >= namedStatementsMax) return known;
    const name = `s${names.size + 1}`;
    names.set(text, name);
    return name;
  };
  const clients = new WeakMap<pg.PoolClient, PostgresPoolClient>();
  // On connect, not when the client is handed out: an end in the same packet as the start would find no listener.
  pool.on("connect", (client) => void clients.set(client, statementClient(client, { nameOf, answered })));
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      refuseInsideTransaction();
      return clients.get(await answered(() => pool.connect())) as PostgresPoolClient;
    },
  };
}

type Answered = <T>(ask: () => Promise<T>) => Promise<T>;

function statementClient(
  client: pg.PoolClient,
  { nameOf, answered }: { nameOf: (text: string) => string | undefined; answered: Answered },
): PostgresPoolClient {
  let isInTransaction = false;
  let broken: unknown;
  client.on("error", (error) => {
    broken ??= error;
  });

  async function run(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<unknown>> {
    // Statements without parameters use the simple protocol, the only one that allows several statements in a text (migrations).
    const name = values.length > 0 ? nameOf(text) : undefined;
    const limit = transactions.getStore()?.timeoutMs;
    const config = {
      text,
      values: [...values],
      ...(name !== undefined && { name }),
      ...(limit !== undefined && { query_timeout: limit }),
    };
    try {
      return (await answered(() => client.query(config))) as never;
    } catch (error) {
      // The answer may still arrive and would be taken for the answer to the next statement.
      if (error instanceof Error && error.message === "Query read timeout") broken ??= error;
      // The server is about to close this connection, but the socket may end only after the next statement was sent.
      if ((error as pg.DatabaseError).severity === "FATAL") broken ??= error;
      // The primary became a standby. Without this the pool would keep using the connection, as it is always busy.
      if (sqlState(error) === readOnly) broken ??= error;
      // Once the connection is broken, pg only says "not queryable". Report the cause, which the caller can act on.
      throw broken ?? error;
    }
  }

  async function query(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<unknown>> {
    const verb = /^\s*(begin|start|commit|rollback(?!\s+to))\b/i.exec(text)?.[1]?.toLowerCase();
    if (verb !== undefined) isInTransaction = verb === "begin" || verb === "start";
    for (let tries = 1; ; tries += 1) {
      try {
        return await run(text, values);
      } catch (error) {
        // A single statement was rolled back as a whole. Inside a transaction only the caller can start again.
        if (isInTransaction || !isConflict(error) || tries >= triesMax) throw error;
      }
    }
  }

  return {
    query: query as PostgresPoolClient["query"],
    release: (destroy) => client.release(destroy === true || broken !== undefined),
  };
}
