import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../../telemetry/log.ts";
import { currentUnit } from "./atomic-unit.ts";
import type { Db, Trx } from "./database.ts";
import { DatabaseUnusable, sqlState } from "./database-errors.ts";
import { sql } from "./sql.ts";

/** The directory beside this file, in the sources and in the built program. */
const migrationsDirectory = path.join(import.meta.dirname, "migrations");

/** Any number works if it never changes between versions: the first four bytes of "pierhead", as all eight would not fit. */
const advisoryLock = 0x70696572;

/** A migration may rewrite a large table. After ten minutes something is wrong. */
export const migrationTimeoutMs = 600_000;

/**
 * While a migration waits for a table lock, every later request for that table waits behind it, also on servers of the
 * previous version. The migration therefore waits at most this long for the sessions that hold the table (a backup may
 * hold it for minutes) and then lets the others continue before it retries.
 */
const lockTimeoutMs = 1_000;
const lockPauseMs = 4_000;

interface Migration {
  number: number;
  name: string;
  text: string;
  digest: string;
  /** Programs that do not know it keep working: it starts with the line `-- additive`. */
  additive: boolean;
}

export interface MigrateOptions {
  /** Directory of the migrations; those of this program by default. */
  directory?: string;
  /** Names of the migrations to apply, to create the tables of an earlier version; all by default. */
  only?: readonly string[];
  /** Logs why a migration waits. */
  logger?: Pick<Logger, "info">;
}

/**
 * Brings the tables up to date: applies the missing migrations, in order and in one transaction. Servers that start at
 * the same time wait for the first one and then find nothing to do. Migrations only go forward. A program works with
 * newer tables as long as the migrations it does not know only added to them, so an upgrade can be rolled back.
 * @returns names of the migrations that were applied now.
 * @throws DatabaseUnusable when the database was written by a newer version or by one from before the first release, or an
 * applied migration was changed.
 */
export async function migrate(
  db: Db,
  { directory = migrationsDirectory, only, logger }: MigrateOptions = {},
): Promise<string[]> {
  const known = (await readMigrations(directory)).filter(({ name }) => only?.includes(name) ?? true);
  const end = performance.now() + migrationTimeoutMs;
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await applyMissing(db, known, logger);
    } catch (error) {
      if (!isLockRefused(error)) throw error;
      if (performance.now() > end) {
        throw new Error(
          "another session has locked the tables for more than ten minutes: end it (see pg_stat_activity) and start again",
          { cause: error },
        );
      }
      if (attempts === 1) logger?.info("waiting for other sessions to release the tables, in order to migrate them");
      await sleep(lockPauseMs);
    }
  }
}

function applyMissing(db: Db, known: Migration[], logger: MigrateOptions["logger"]): Promise<string[]> {
  // Inside a unit (a restore) other statements cannot be repeated, and no other session knows the tables yet.
  const hasOthers = db.kind === "postgres" && currentUnit() === undefined;
  return db.transaction(
    async (trx) => {
      if (db.kind === "postgres") await waitForOthers(trx, logger);
      if (hasOthers) await trx.query(sql`set local lock_timeout = ${sql.literal(lockTimeoutMs)}`);
      const applied = await readApplied(trx);
      refuseUnknown(known, applied);
      const missing = known.filter((migration) => !applied.has(migration.number));
      for (const migration of missing) await apply(trx, migration);
      return missing.map((migration) => migration.name);
    },
    { timeoutMs: migrationTimeoutMs },
  );
}

/** Waits until no other server migrates the database. */
async function waitForOthers(trx: Trx, logger: MigrateOptions["logger"]): Promise<void> {
  const { rows } = await trx.query<{ is_free: boolean }>(sql`
    select pg_try_advisory_xact_lock(${advisoryLock}) as is_free`);
  if (rows[0]?.is_free === true) return;
  logger?.info("waiting for the migration lock, which another server holds");
  await trx.query(sql`select pg_advisory_xact_lock(${advisoryLock})`);
}

async function readMigrations(directory: string): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith(".sql")).sort();
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(path.join(directory, name), "utf8");
      return {
        number: Number(name.split("_")[0]),
        name,
        text,
        digest: createHash("sha256").update(text).digest("hex"),
        additive: text.startsWith("-- additive\n"),
      };
    }),
  );
}

/** lock_not_available */
function isLockRefused(error: unknown): boolean {
  return [error, (error as Error).cause].some((one) => sqlState(one) === "55P03");
}

type Applied = Pick<Migration, "name" | "digest" | "additive">;

async function readApplied(trx: Trx): Promise<Map<number, Applied>> {
  await trx.query(sql`
    create table if not exists schema_migrations (
      number integer primary key, name text not null, digest text not null, additive boolean not null default false,
      applied_at timestamptz not null default now()
    )`);
  const { rows } = await trx.query<Applied & Pick<Migration, "number">>(sql`
    select number, name, digest, additive from schema_migrations order by number`);
  return new Map(rows.map((row) => [row.number, row]));
}

/** The second of 35 files that `0001_initial.sql` replaced before the first release (decision 0011). */
const mergedBeforeRelease = "0002_idempotency_keys.sql";

function refuseUnknown(known: Migration[], applied: Map<number, Applied>): void {
  const newest = known.at(-1);
  if ([...applied.values()].some(({ name }) => name === mergedBeforeRelease)) {
    throw new DatabaseUnusable(
      "the database was created by a development version from before the first release, and cannot be upgraded. " +
        "Start with an empty database",
    );
  }
  for (const [number, { name, digest, additive }] of applied) {
    const ours = known.find((migration) => migration.number === number);
    if (ours === undefined) {
      if (additive) continue;
      throw new DatabaseUnusable(
        `the database is newer than this program: it has migration ${name}, this program ends at ${newest?.name}. ` +
          "Start the newer version, or restore a backup from before the upgrade",
      );
    }
    if (ours.digest !== digest) {
      throw new DatabaseUnusable(
        `migration ${name} was changed after it had been applied: add a new migration instead`,
      );
    }
  }
}

async function apply(trx: Trx, migration: Migration): Promise<void> {
  try {
    await trx.query(sql.raw(migration.text));
  } catch (error) {
    throw new Error(`migration ${migration.name}`, { cause: error });
  }
  await trx.query(sql`insert into schema_migrations (number, name, digest, additive)
            values (${migration.number}, ${migration.name}, ${migration.digest}, ${migration.additive})`);
}
