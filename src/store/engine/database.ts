import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Kysely, PostgresDialect, sql, type Transaction } from "kysely";
import pg from "pg";
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
import type { Database } from "./schema.ts";
import { insideTransaction, refuseOtherLimit, statementPool } from "./statement-pool.ts";

/**
 * The one store. Store functions take `Db | Trx` and run their statements on `.kysely`: `sql` templates for statements
 * that must be one round trip, the query builder where it reads better. Both become named prepared statements; for lists
 * of varying length write `= any($1)`, not `in (...)`, so that the text stays the same.
 */
export interface Db {
  readonly kysely: Kysely<Database>;
  readonly kind: "embedded" | "postgres";
  /** The engine behind it, for those who watch it; undefined on PostgreSQL. */
  readonly engine: EmbeddedEngine | undefined;
  /** Wakes those who look for what changed; call it after the commit. */
  readonly changes: ChangeFeed;
  /** Wakes those who tail logs; whoever appends lines does that. */
  readonly logSignal: LogSignal;
  /**
   * One transaction (read committed). Runs `act` again, at most 5 times in all, when PostgreSQL undid it because of a
   * conflict: `act` must change nothing but the database. Inside it, use `trx` only: another connection would wait for
   * this one for ever, so asking for one throws. `timeoutMs` replaces the limit of 30 s on each of its statements.
   */
  transaction<T>(act: (trx: Trx) => Promise<T>, options?: { timeoutMs?: number }): Promise<T>;
  /**
   * Runs `act` so that every statement that it, or whatever it calls, sends over this `Db` is part of one transaction:
   * all of it happens, or nothing. `transaction` inside of it joins it; `reached` and `changes.wake` wait for the commit.
   * An error must not be caught inside and passed over. May run `act` again as `transaction` does, so the same holds:
   * it changes nothing but the database, and waits for nothing but the database, whose one connection it may hold.
   * `timeoutMs` as with `transaction`, which inside of it may ask for no other limit than this one.
   */
  atomically<T>(act: () => Promise<T>, options?: { timeoutMs?: number }): Promise<T>;
  /** Does it when what is under way is committed: at once outside of `atomically`. */
  afterCommit(act: () => void): void;
  /** The database's own time, which this server's clock says nothing of. */
  now(): Date;
  /** To be called after `migrate` by who begins what has deadlines: from here on they move with a clock that is set. */
  watchClock(): Promise<void>;
  /** Says that a step is durable; tests kill the process at chosen ones. */
  reached(point: FaultPoint): void;
  /** The server stops: from here on a PostgreSQL that stands still is soon given up, and what is asked of it fails. */
  hurry(): void;
  /** Ends all connections, and the embedded engine with a clean shutdown. Calling it again changes nothing. */
  close(): Promise<void>;
}

/** A running transaction. Deliberately no supertype of `Db`: a function that needs a transaction cannot be given the pool. */
export interface Trx {
  readonly kysely: Transaction<Database>;
}

export interface DatabaseOptions {
  /** `postgres://...`; undefined: the embedded database in `<dataDir>/database`. */
  databaseUrl?: string | undefined;
  dataDir: string;
  /** Connections to PostgreSQL. The embedded database has exactly one. */
  poolMax?: number;
  logger: Logger;
  /** false leaves out fsync in the embedded database: for tests alone. */
  durable?: boolean;
  /** Where `ensureTemplate` left its archive; undefined: beside the built program. Without one a first start takes 2 s more. */
  templateDirectory?: string;
  onReached?: (point: FaultPoint) => void;
}

/** Enough for 16 reconcile passes and some requests; two replicas stay below PostgreSQL's default of 100. */
const poolMaxDefault = 20;

/** The longest wait for a connection: a request that waited longer has lost its client. */
const connectTimeoutMs = 15_000;

/** No statement of ours needs more than a second; one that does not end must not hold a connection. */
const statementTimeoutMs = 30_000;

/** Counted by the client, in case the server is gone without a word: above the server's own limit. */
const answerTimeoutMs = statementTimeoutMs + 5_000;

/** The embedded database has no such limit of its own; this one reopens it, so it is for statements that never end. */
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
  const kysely = new Kysely<Database>({ dialect: new PostgresDialect({ pool: statements }) });
  try {
    if (engine === undefined) await checkServerVersion(kysely);
    const clock =
      engine === undefined ? await followDatabase(kysely, logger) : followClock(engine.clock, kysely, logger);
    return assemble({ pool, sockets, engine, changes, clock, kysely }, options);
  } catch (error) {
    await changes.close();
    await pool.end();
    sockets?.cut();
    await engine?.close();
    throw error;
  }
}

/** @param constraint narrows the answer to one unique constraint or index, by name. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  if (sqlState(error) !== "23505") return false;
  return constraint === undefined || (error as { constraint?: string }).constraint === constraint;
}

/** A row was to go that others refer to, or one is referred to that is not there. */
export function isForeignKeyViolation(error: unknown, constraint?: string): boolean {
  if (sqlState(error) !== "23503") return false;
  return constraint === undefined || (error as { constraint?: string }).constraint === constraint;
}

interface Parts {
  pool: pg.Pool;
  /** undefined: of the embedded database, which stands still with this process alone. */
  sockets: PostgresSockets | undefined;
  engine: EmbeddedEngine | undefined;
  changes: ChangeFeed;
  clock: DatabaseClock;
  kysely: Kysely<Database>;
}

function assemble({ pool, sockets, engine, changes, clock, kysely }: Parts, options: DatabaseOptions): Db {
  const stopUpkeep = engine === undefined ? undefined : startUpkeep(kysely, options.logger);
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
  const db: Db = {
    get kysely() {
      return currentUnit() ?? kysely;
    },
    kind: isPostgres ? "postgres" : "embedded",
    engine,
    changes: {
      ...changes,
      wake: () => afterCommit(changes.wake),
      wakeWatchers: () => afterCommit(changes.wakeWatchers),
    },
    transaction(act, limits = {}) {
      const unit = currentUnit();
      if (unit === undefined) return transact(kysely, act, { ...limits, isPostgres });
      refuseOtherLimit(limits);
      return act({ kysely: unit });
    },
    async atomically(act, limits = {}) {
      if (currentUnit() === undefined) {
        return runUnit((unit) => transact(kysely, (trx) => unit(trx.kysely), { ...limits, isPostgres }), act);
      }
      refuseOtherLimit(limits);
      return act();
    },
    afterCommit,
    get logSignal() {
      return logSignal;
    },
    now: () => clock.now(),
    watchClock: () => clock.watch(),
    reached: (point) => afterCommit(() => options.onReached?.(point)),
    hurry: () => sockets?.hurry(),
    close: () => {
      closing ??= close();
      return closing;
    },
  };
  const logSignal = new LogSignal(db);
  return db;
}

async function transact<T>(
  kysely: Kysely<Database>,
  act: (trx: Trx) => Promise<T>,
  { timeoutMs, isPostgres }: { timeoutMs?: number; isPostgres: boolean },
): Promise<T> {
  const run = async (trx: Transaction<Database>) => {
    // The embedded database has no such limit; its engine counts the time itself.
    if (timeoutMs !== undefined && isPostgres)
      await sql`set local statement_timeout = ${sql.lit(timeoutMs)}`.execute(trx);
    return act({ kysely: trx });
  };
  for (let tries = 1; ; tries += 1) {
    try {
      return await kysely.transaction().execute((trx) => insideTransaction({ timeoutMs }, () => run(trx)));
    } catch (error) {
      if (!isConflict(error) || tries >= triesMax) throw error;
      await sleep(10 * 2 ** tries * (0.5 + Math.random() / 2));
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

/** One session, so one connection; it never idles out, because a new one would have to reset that session. */
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

async function checkServerVersion(kysely: Kysely<Database>): Promise<void> {
  const { rows } = await sql<{ version: number; text: string }>`
    select current_setting('server_version_num')::int as version, current_setting('server_version') as text`.execute(
    kysely,
  );
  const [found] = rows;
  if (found === undefined || found.version < serverVersionMin) {
    throw new DatabaseUnusable(`PostgreSQL ${found?.text} is too old: version 14 or newer is needed (DATABASE_URL)`);
  }
}
