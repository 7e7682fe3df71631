import { AsyncLocalStorage } from "node:async_hooks";
import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from "kysely";
import type pg from "pg";
import { isConflict, sqlState } from "./database-errors.ts";

/**
 * Texts that get a name of their own, so that every connection parses and plans them once (about twice as fast). The
 * store has some hundred; a stream of ever new texts beyond this must not fill the memory of server and client.
 */
const namedStatementsMax = 500;

const triesMax = 5;

/** read_only_sql_transaction */
const readOnly = "25006";

/** Set while a transaction's callback runs. */
const transactions = new AsyncLocalStorage<{ isRunning: boolean; timeoutMs: number | undefined }>();

/** Runs the callback of a transaction so that a request for a second connection is refused instead of waiting for ever. */
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

/** Runs what must not count as part of the transaction around it, such as waking someone else. */
export function outsideTransaction<T>(act: () => T): T {
  return transactions.exit(act);
}

/** @throws Error when a transaction's callback runs: what it asks for must go through its `trx`. */
export function refuseInsideTransaction(): void {
  if (transactions.getStore()?.isRunning === true) {
    throw new Error("a second connection was asked for inside a transaction: pass trx on instead of db");
  }
}

/** @throws Error when what joins the transaction around it asks for a limit that this one does not have. */
export function refuseOtherLimit({ timeoutMs }: { timeoutMs?: number }): void {
  if (timeoutMs === undefined || timeoutMs === transactions.getStore()?.timeoutMs) return;
  throw new Error(`a limit of ${timeoutMs} ms has no effect inside a unit: give it to the atomically around it`);
}

/**
 * The pool as kysely sees it: each statement with parameters is a named prepared one.
 * @param answered all that is asked of the database goes through it.
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
  // At once, and not where it is handed out: an end that comes in the same packet as the beginning would have no listener.
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
    // Without parameters the simple protocol is used: it alone takes several statements in one text (migrations).
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
      // Its answer may still come and would be taken for the next one's.
      if (error instanceof Error && error.message === "Query read timeout") broken ??= error;
      // The server is about to close this connection; the socket's end may come after the next statement was sent.
      if ((error as pg.DatabaseError).severity === "FATAL") broken ??= error;
      // A primary that became a standby: no other connection would be made as long as this one is always in use.
      if (sqlState(error) === readOnly) broken ??= error;
      // After the connection broke, pg only says "not queryable"; why it broke is what the caller can act on.
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
        // A statement of its own was undone as a whole; inside a transaction only the caller can begin again.
        if (isInTransaction || !isConflict(error) || tries >= triesMax) throw error;
      }
    }
  }

  return {
    query: query as PostgresPoolClient["query"],
    release: (destroy) => client.release(destroy === true || broken !== undefined),
  };
}
