import { AsyncLocalStorage } from "node:async_hooks";
import type pg from "pg";
import { ConnectionTurns, forWorkspace } from "./connection-turns.ts";
import { isConflict, sqlState } from "./database-errors.ts";
import type { Sql } from "./sql.ts";

export interface StatementResult<Row> {
  rows: Row[];
  /** Rows that the statement returned or changed; 0 for a statement that does neither. */
  rowCount: number;
}

/** Sends statements. `Row` is the caller's promise of what the statement returns. */
export interface Statements {
  query<Row>(statement: Sql): Promise<StatementResult<Row>>;
}

/** A running transaction. `Db` is deliberately no subtype: a function that needs a transaction cannot be given the pool. */
export interface Trx extends Statements {
  readonly isTransaction: true;
}

/** Sends each statement on any free connection, and those of a transaction on one. Workspaces take turns. */
export interface StatementPool extends Statements {
  /** Runs `act` between `begin` and `commit`, or `rollback` when it throws. */
  transaction<T>(act: (trx: Trx) => Promise<T>): Promise<T>;
}

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

/** Runs `act` outside of the current transaction, and for no workspace, for example to wake subscribers. */
export function outsideTransaction<T>(act: () => T): T {
  return transactions.exit(() => forWorkspace(null, act));
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
 * Returns the pool that sends each statement with parameters as a named prepared one.
 * @param answered wraps every request to the database.
 */
export function statementPool(pool: pg.Pool, answered: Answered = (ask) => ask()): StatementPool {
  const names = new Map<string, string>();
  const nameOf = (text: string) => {
    const known = names.get(text);
    if (known !== undefined || names.size >= namedStatementsMax) return known;
    const name = `s${names.size + 1}`;
    names.set(text, name);
    return name;
  };
  const { max, connectionTimeoutMillis: waitMaxMs = 0 } = pool.options;
  const turns = new ConnectionTurns({ max, waitMaxMs });
  const connections = new WeakMap<pg.PoolClient, Connection>();
  // On connect, not when the client is handed out: an end in the same packet as the start would find no listener.
  pool.on("connect", (client) => void connections.set(client, new Connection(client, { nameOf, answered })));
  const withConnection = async <T>(act: (connection: Connection) => Promise<T>): Promise<T> => {
    refuseInsideTransaction();
    const end = await answered(() => turns.begin());
    try {
      const connection = connections.get(await answered(() => pool.connect())) as Connection;
      try {
        return await act(connection);
      } finally {
        connection.release();
      }
    } finally {
      end();
    }
  };
  return {
    query: (statement) => withConnection((connection) => connection.query(statement)),
    transaction: (act) => withConnection((connection) => connection.transaction(act)),
  };
}

type Answered = <T>(ask: () => Promise<T>) => Promise<T>;

interface Sending {
  nameOf(text: string): string | undefined;
  answered: Answered;
}

class Connection implements Statements {
  readonly #client: pg.PoolClient;
  readonly #sending: Sending;
  #broken: unknown;

  constructor(client: pg.PoolClient, sending: Sending) {
    this.#client = client;
    this.#sending = sending;
    client.on("error", (error) => {
      this.#broken ??= error;
    });
  }

  async query<Row>({ text, values }: Sql): Promise<StatementResult<Row>> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#send<Row>(text, values);
      } catch (error) {
        // PostgreSQL rolled the statement back as a whole, so it can be sent again.
        if (!isConflict(error) || tries >= triesMax) throw error;
      }
    }
  }

  async transaction<T>(act: (trx: Trx) => Promise<T>): Promise<T> {
    let hasEnded = false;
    let previous: Promise<unknown> = Promise.resolve();
    // A connection answers one statement at a time. A conflict is not retried: only the caller can begin again.
    const query = <Row>({ text, values }: Sql): Promise<StatementResult<Row>> => {
      const result = previous.then(() => {
        if (hasEnded) throw new Error("a statement was sent over a transaction that has ended");
        return this.#send<Row>(text, values);
      });
      previous = result.catch(() => undefined);
      return result;
    };
    await this.#send("begin", []);
    try {
      const result = await act({ query, isTransaction: true });
      hasEnded = true;
      const { command } = await this.#send("commit", []);
      if (command !== "COMMIT") throw new Error("the transaction was rolled back because one of its statements failed");
      return result;
    } catch (error) {
      hasEnded = true;
      await this.#rollBack();
      throw error;
    }
  }

  async #rollBack(): Promise<void> {
    try {
      await this.#send("rollback", []);
    } catch (error) {
      // The next user of this connection would find the transaction still open.
      this.#broken ??= error;
      throw error;
    }
  }

  release(): void {
    this.#client.release(this.#broken !== undefined);
  }

  async #send<Row>(text: string, values: readonly unknown[]): Promise<StatementResult<Row> & { command: string }> {
    // Statements without parameters use the simple protocol, the only one that allows several statements in a text (migrations).
    const name = values.length > 0 ? this.#sending.nameOf(text) : undefined;
    const limit = transactions.getStore()?.timeoutMs;
    const config = {
      text,
      values: values as unknown[],
      ...(name !== undefined && { name }),
      ...(limit !== undefined && { query_timeout: limit }),
    };
    try {
      const { rows, rowCount, command } = await this.#sending.answered(() => this.#client.query(config));
      return { rows, rowCount: rowCount ?? 0, command };
    } catch (error) {
      // The answer may still arrive and would be taken for the answer to the next statement.
      if (error instanceof Error && error.message === "Query read timeout") this.#broken ??= error;
      // The server is about to close this connection, but the socket may end only after the next statement was sent.
      if ((error as pg.DatabaseError).severity === "FATAL") this.#broken ??= error;
      // The primary became a standby. Without this the pool would keep using the connection, as it is always busy.
      if (sqlState(error) === readOnly) this.#broken ??= error;
      // Once the connection is broken, pg only says "not queryable". Report the cause, which the caller can act on.
      throw this.#broken ?? error;
    }
  }
}
