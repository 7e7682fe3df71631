import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { type Db, openDatabase } from "../../src/store/engine/database.ts";
import { migrate } from "../../src/store/engine/migrate.ts";
import { relativeTimeColumns, shiftRelativeTimesOnce } from "../../src/store/engine/relative-times.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { acquireLease } from "../../src/store/queue/leases.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { fakeTimeEnvironment, fakeTimeSkipped, findFakeTime } from "../support/fake-time.ts";
import { findBinaries, postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";

eachDatabase("knows the database's time without a query, to within a second", async (db) => {
  const before = db.now().getTime();
  const { rows } = await db.query<{ at: Date }>(sql`select clock_timestamp() as at`);
  const [at, after] = [rows[0]?.at.getTime() ?? 0, db.now().getTime()];
  // The answer may be slow: it was given at some moment in between.
  assert.ok(at > before - 1_000 && at < after + 1_000, `${before} <= ${at} <= ${after}`);
});

eachDatabase(
  "setting the clock shifts every column with a deadline, a lease or a retry time",
  async (db) => {
    const { rows } = await db.query<{ table_name: string; column_name: string }>(sql`
      select table_name, column_name from information_schema.columns
       where table_schema = 'public' and data_type = 'timestamp with time zone'
         and column_name ~ '(_until|^deadline_at|^retry_at|^run_at|^look_at|^next_attempt_at)$'`);
    const missing = rows.filter(
      ({ table_name, column_name }) => !relativeTimeColumns[table_name]?.includes(column_name),
    );
    assert.deepEqual(missing, []);
  },
  { kinds: ["embedded"] },
);

eachDatabase(
  "a lease of a minute lasts a minute even if the clock is set meanwhile",
  async (db) => {
    const lease = { name: "test", owner: "a", leaseMs: 60_000 };
    for (const jumpMs of [3_600_000, -3_600_000]) {
      // As if the machine's clock had been set by the same amount the other way, and the lease taken before the server noticed.
      db.engine?.clock.add(jumpMs);
      await acquireLease(db, lease);
      await eventually(
        () => Math.abs(Date.now() - db.now().getTime()),
        (apartMs) => apartMs < 2_000,
        { what: "the database's clock follows" },
      );
      const left = () => sql`select extract(epoch from lease_until - now())::float8 as s from leases`;
      await eventually(
        async () => (await db.query<{ s: number }>(left())).rows[0]?.s ?? 0,
        (seconds) => seconds > 0 && seconds <= 62,
        { what: "the lease follows" },
      );
    }
  },
  { kinds: ["embedded"] },
);

eachDatabase(
  "deadlines shift with a clock that was set while the database was failing",
  async (db) => {
    await acquireLease(db, { name: "test", owner: "a", leaseMs: 60_000 });
    const before = await leaseUntil(db);
    const rename = (from: string, to: string) =>
      db.query(sql`alter table ${sql.identifier(from)} rename to ${sql.identifier(to)}`);
    await rename("previews", "away");
    db.engine?.clock.add(3_600_000);
    await eventually(
      () => Math.abs(Date.now() - db.now().getTime()),
      (apartMs) => apartMs < 2_000,
      { what: "the clock, which is set back before the deadlines" },
    );
    await rename("away", "previews");
    await eventually(
      () => leaseUntil(db),
      (until) => Math.abs(before - until - 3_600_000) < 2_000,
      { what: "the lease follows" },
    );
  },
  { kinds: ["embedded"] },
);

eachDatabase("deadlines shift once per clock change, however often the shift is requested", async (db) => {
  await acquireLease(db, { name: "test", owner: "a", leaseMs: 60_000 });
  const before = await leaseUntil(db);
  const { rows } = await db.query<{ mark: Date }>(sql`select mark from clock`);
  const { mark } = rows[0] as { mark: Date };
  const move = { byMs: -10_000, mark, now: () => db.now() };
  assert.deepEqual([await shiftRelativeTimesOnce(db, move), await shiftRelativeTimesOnce(db, move)], [true, false]);
  assert.equal((await leaseUntil(db)) - before, -10_000);
});

test("deadlines shift when PostgreSQL's clock is set just after the watch starts", async (context) => {
  const library = findFakeTime();
  if (library === undefined) return context.skip(fakeTimeSkipped);
  if (findBinaries() === undefined) return context.skip(postgresSkipped);
  await using stop = new AsyncDisposableStack();
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-clock-"));
  stop.defer(() => rm(directory, { recursive: true, force: true }));
  await chmod(directory, 0o711); // PostgreSQL runs as a different user.
  const file = path.join(directory, "offset");
  await writeFile(file, "+0");
  const server = await startPostgresServer({ environment: fakeTimeEnvironment(library, file) });
  stop.defer(async () => server?.stop());
  const db = await openDatabase({ databaseUrl: server?.url, dataDir: directory, logger: createLogger("silent") });
  stop.defer(() => db.close());
  await migrate(db);
  await db.watchClock();
  await acquireLease(db, { name: "test", owner: "a", leaseMs: 60_000 });
  await writeFile(file, "+3600");
  const apart = () => db.query<{ s: number }>(sql`select extract(epoch from clock_timestamp())::float8 as s`);
  const setS = (await apart()).rows[0]?.s ?? 0;
  assert.ok(setS > Date.now() / 1_000 + 3_000, "the clock was set");
  await eventually(
    async () => (await leaseUntil(db)) / 1_000 - setS,
    (leftS) => leftS > 0 && leftS <= 62,
    { what: "the lease follows" },
  );
});

async function leaseUntil(db: Db): Promise<number> {
  const { rows } = await db.query<{ at: Date }>(sql`select lease_until as at from leases`);
  return rows[0]?.at.getTime() ?? Number.NaN;
}
