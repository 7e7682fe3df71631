import { describeError, type Logger } from "../../../telemetry/log.ts";
import { sql } from "../sql.ts";
import type { Statements } from "../statement-pool.ts";

/** Stops the upkeep and waits for the step that runs. */
export type StopUpkeep = () => Promise<void>;

const intervalMs = 60_000;

/** The WAL that a restart after a crash may have to read: 64 MiB take about a second. */
const walBytesMax = 64 * 1024 * 1024;

/** Rows of a table that may be dead, or not yet counted by the planner, before it is vacuumed: like autovacuum, plus 20 %. */
const staleRowsMin = 500;

/**
 * Starts the upkeep that PostgreSQL's background processes do elsewhere. The embedded database has none: without this no
 * checkpoint would recycle WAL, and no vacuum would free rows. It runs one short statement at a time between the others.
 */
export function startUpkeep(statements: Statements, logger: Logger): StopUpkeep {
  let isStopped = false;
  let running = Promise.resolve();
  const timer = setInterval(() => {
    running = running.then(round).catch((error: unknown) => {
      logger.warn({ error: describeError(error) }, "upkeep of the embedded database failed");
    });
  }, intervalMs).unref();
  const round = async () => {
    if (!isStopped) await runUpkeep(statements, () => isStopped);
  };
  return async () => {
    isStopped = true;
    clearInterval(timer);
    await running;
  };
}

/** Runs one round: vacuums the tables that need it, then writes a checkpoint if much WAL was written since the last. */
export async function runUpkeep(statements: Statements, isStopped: () => boolean = () => false): Promise<void> {
  const { rows: tables } = await statements.query<{ name: string }>(sql`
    select relname as name from pg_stat_user_tables
     where schemaname = 'public'
       and greatest(n_dead_tup, n_mod_since_analyze) > ${staleRowsMin}::float8 + 0.2 * n_live_tup`);
  for (const { name } of tables) {
    if (isStopped()) return;
    await statements.query(sql`vacuum (analyze) ${sql.identifier(name)}`);
  }
  const { rows } = await statements.query<{ bytes: number }>(sql`
    select (pg_current_wal_insert_lsn() - redo_lsn)::float8 as bytes from pg_control_checkpoint()`);
  if (!isStopped() && (rows[0]?.bytes ?? 0) > walBytesMax) await statements.query(sql`checkpoint`);
}
