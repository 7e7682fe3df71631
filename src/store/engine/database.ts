import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { backoffMs, withJitter } from "../../base/backoff.ts";
import type { Logger } from "../../telemetry/log.ts";
import { LogSignal } from "../logs/log-signal.ts";
import { afterCommit, currentUnit, runUnit } from "./atomic-unit.ts";
import { type ChangeFeed, createChangeFeed } from "./change-feed.ts";
import { columnParsers } from "./column-parsers.ts";
import { type DatabaseClock, followDatabase } from "./database-clock.ts";
import { DatabaseUnusable, isConflict, sqlState } from "./database-errors.ts";
import { type EmbeddedEngine, openEmbeddedEngine } from "./embedded/engine.ts";
import { followClock } from "./embedded/steady-clock.ts";
import { startUpkeep } from "./embedded/upkeep.ts";
import type { FaultPoint } from "./fault-points.ts";
import { PostgresSockets } from "./postgres-sockets.ts";
import { sql } from "./sql.ts";
import {
  insideTransaction,
  refuseOtherLimit,
  type StatementPool,
  type Statements,
  statementPool,
  type Trx,
} from "./statement-pool.ts";

/**
 * The database of the installation. Store functions take `Db | Trx` and send `sql` templates with `query`. A template with
 * bound values becomes a named prepared statement, so its text must stay the same: for lists of varying length write
 * `= any($1)`, not `in (...)`.
 */
export interface Db extends Statements {
  readonly kind: "embedded" | "postgres";
  /** The embedded engine, for monitoring; undefined on PostgreSQL. */
  readonly engine: EmbeddedEngine | undefined;
  /** Wakes the readers of changes. Call it after the commit. */
  readonly changes: ChangeFeed;
  /** Wakes readers that tail logs. Every function that appends lines calls it. */
  readonly logSignal: LogSignal;
  /**
   * Runs `act` in one transaction (read committed). Runs it again, at most 5 times in total, when PostgreSQL rolled it back
   * because of a conflict, so `act` must change nothing but the database. Inside it, use only `trx`: a second connection
   * would wait for this one without end, so asking for one throws. `timeoutMs` replaces the limit of 30 s per statement.
   */
  transaction<T>(act: (trx: Trx) => Promise<T>, options?: { timeoutMs?: number }): Promise<T>;
  /**
   * Runs `act` so that every statement sent over this `Db`, by it or by any function it calls, is part of one transaction
   * that takes effect as a whole or not at all. A `transaction` inside joins it; `reached` and `changes.wake` wait for the
   * commit. Do not catch an error inside and continue. Like `transaction`, it may run `act` again, so the same rule holds:
   * `act` changes nothing but the database, and waits for nothing else, because it may hold the only connection. `timeoutMs`
   * as for `transaction`; a `transaction` inside may not ask for a different limit.
   */
  atomically<T>(act: () => Promise<T>, options?: { timeoutMs?: number }): Promise<T>;
  /** Runs `act` once the current unit has committed; at once outside of `atomically`. */
  afterCommit(act: () => void): void;
  /** Returns the time of the database, which may differ from this server's clock. */
  now(): Date;
  /** Makes deadlines shift with a database clock that is set. Call it after `migrate`, before any work that has deadlines. */
  watchClock(): Promise<void>;
  /** Reports that a step is durable. Tests kill the process at chosen points. */
  reached(point: FaultPoint): void;
  /** Limits the waits of a stopping server: if PostgreSQL freezes from now on, all its connections are closed and requests fail. */
  limitShutdown(): void;
  /** Ends all connections, and shuts the embedded engine down cleanly. Further calls do nothing. */
  close(): Promise<void>;
}

export type { Trx } from "./statement-pool.ts";

export interface DatabaseOptions {
  /** `postgres://...`; undefined for the embedded database in `<dataDir>/database`. */
  databaseUrl?: string | undefined;
  dataDir: string;
  /** Connections to PostgreSQL. The embedded database has exactly one. */
  poolMax?: number;
  logger: Logger;
  /** false turns fsync off in the embedded database; for tests only. */
  durable?: boolean;
  /** Directory in which `ensureTemplate` wrote its archive; undefined: beside the built program. Without one a first start takes 2 s longer. */
  templateDirectory?: string;
  onReached?: (point: FaultPoint) => void;
}

/** Enough for 16 reconcile passes and some requests, and two servers stay below PostgreSQL's default limit of 100. */
const poolMaxDefault = 20;

/** The longest wait for a connection. By then the client of the request has given up. */
const connectTimeoutMs = 15_000;

/** No statement needs more than a second, and one that does not end must not hold its connection. */
const statementTimeoutMs = 30_000;

/** Counted by the client, in case the database server vanishes without closing the connection. Above the server's own limit. */
const answerTimeoutMs = statementTimeoutMs + 5_000;

/** The embedded database has no statement limit. This timeout reopens it, so it is meant for statements that never end. */
const embeddedAnswerTimeoutMs = 120_000;

const triesMax = 5;

const serverVersionMin = 140_000;

/**
 * Opens the database; `migrate` brings its tables up to date.
 * @throws DatabaseUnusable when another process has the embedded database open, or PostgreSQL is older than 14.
 */
export async function openDatabase(options: DatabaseOptions): Promise<Db> {
  const { logger, databaseUrl } = options;
  const engine =
    databaseUrl === undefined
      ? await openEmbeddedEngine({
          directory: path.join(options.dataDir, "database"),
          durable: options.durable ?? true,
          templateDirectory: options.templateDirectory,
          answerTimeoutMs: embeddedAnswerTimeoutMs,
          logger,
        })
      : undefined;
  const sockets = engine === undefined ? new PostgresSockets() : undefined;
  const pool = new pg.Pool(
    engine === undefined
      ? { ...postgresConfig(databaseUrl as string, options), stream: () => sockets?.open() }
      : embeddedConfig(engine),
  );
  pool.on("error", (error) => logger.warn({ error: error.message }, "an idle database connection ended"));
  const changes = createChangeFeed(databaseUrl, logger);
  const statements = statementPool(pool, sockets && ((ask) => sockets.answered(ask)));
  try {
    if (engine === undefined) await checkServerVersion(statements);
    const clock =
      engine === undefined ? await followDatabase(statements, logger) : followClock(engine.clock, statements, logger);
    return assemble({ pool, sockets, engine, changes, clock, statements }, options);
  } catch (error) {
    await changes.close();
    await pool.end();
    sockets?.cut();
    await engine?.close();
    throw error;
  }
}

/** Reports a unique violation. @param constraint restricts it to one unique constraint or index, by name. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  if (sqlState(error) !== "23505") return false;
  return constraint === undefined || (error as { constraint?: string }).constraint === constraint;
}

/** Reports a foreign key violation: other rows refer to the row being deleted, or the row referred to does not exist. */
export function isForeignKeyViolation(error: unknown, constraint?: string): boolean {
  if (sqlState(error) !== "23503") return false;
  return constraint === undefined || (error as { constraint?: string }).constraint === constraint;
}

interface Parts {
  pool: pg.Pool;
  /** undefined for the embedded database, which freezes only together with this process. */
  sockets: PostgresSockets | undefined;
  engine: EmbeddedEngine | undefined;
  changes: ChangeFeed;
  clock: DatabaseClock;
  statements: StatementPool;
}

function assemble({ pool, sockets, engine, changes, clock, statements }: Parts, options: DatabaseOptions): Db {
  const stopUpkeep = engine === undefined ? undefined : startUpkeep(statements, options.logger);
  let closing: Promise<void> | undefined;
  const close = async () => {
    logSignal.close();
    await changes.close();
    await clock.stop();
    await stopUpkeep?.();
    await pool.end();
    sockets?.cut();
    await engine?.close();
  };
  const isPostgres = engine === undefined;
  const query: Db["query"] = (statement) => (currentUnit() ?? statements).query(statement);
  // No other server writes to the embedded database.
  const logSignal = new LogSignal({ query }, { hasOtherWriters: isPostgres });
  return {
    query,
    kind: isPostgres ? "postgres" : "embedded",
    engine,
    changes: {
      ...changes,
      wake: () => afterCommit(changes.wake),
      wakeWatchers: () => afterCommit(changes.wakeWatchers),
    },
    transaction(act, limits = {}) {
      const unit = currentUnit();
      if (unit === undefined) return transact(statements, act, { ...limits, isPostgres });
      refuseOtherLimit(limits);
      return act(unit);
    },
    async atomically(act, limits = {}) {
      if (currentUnit() === undefined) {
        return runUnit((unit) => transact(statements, unit, { ...limits, isPostgres }), act);
      }
      refuseOtherLimit(limits);
      return act();
    },
    afterCommit,
    logSignal,
    now: () => clock.now(),
    watchClock: () => clock.watch(),
    reached: (point) => afterCommit(() => options.onReached?.(point)),
    limitShutdown: () => sockets?.limitShutdown(),
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

const conflictRetryBounds = { firstMs: 10, maxMs: 10_000 };

async function transact<T>(
  statements: StatementPool,
  act: (trx: Trx) => Promise<T>,
  { timeoutMs, isPostgres }: { timeoutMs?: number; isPostgres: boolean },
): Promise<T> {
  const run = async (trx: Trx) => {
    // The embedded database has no statement limit; its engine enforces a timeout.
    if (timeoutMs !== undefined && isPostgres)
      await trx.query(sql`set local statement_timeout = ${sql.literal(timeoutMs)}`);
    return act(trx);
  };
  for (let tries = 1; ; tries += 1) {
    try {
      return await statements.transaction((trx) => insideTransaction({ timeoutMs }, () => run(trx)));
    } catch (error) {
      if (!isConflict(error) || tries >= triesMax) throw error;
      await sleep(withJitter(backoffMs(tries + 1, conflictRetryBounds)));
    }
  }
}

function postgresConfig(databaseUrl: string, options: DatabaseOptions): pg.PoolConfig {
  return {
    connectionString: databaseUrl,
    max: options.poolMax ?? poolMaxDefault,
    application_name: "pierhead",
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    idle_in_transaction_session_timeout: 2 * statementTimeoutMs,
    query_timeout: answerTimeoutMs,
    keepAlive: true,
    types: columnParsers,
  };
}

/** One session, so one connection. It never idles out, because a new connection would have to reset that session. */
function embeddedConfig(engine: EmbeddedEngine): pg.PoolConfig {
  return {
    user: "postgres",
    database: "postgres",
    password: "unused",
    ssl: false,
    max: 1,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: connectTimeoutMs,
    stream: () => engine.connect(),
    types: columnParsers,
  };
}

async function checkServerVersion(statements: StatementPool): Promise<void> {
  const { rows } = await statements.query<{ version: number; text: string }>(sql`
    select current_setting('server_version_num')::int as version, current_setting('server_version') as text`);
  const [found] = rows;
  if (found === undefined || found.version < serverVersionMin) {
    throw new DatabaseUnusable(`PostgreSQL ${found?.text} is too old: version 14 or newer is needed (DATABASE_URL)`);
  }
}
