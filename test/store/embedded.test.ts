import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import pg from "pg";
import { type Db, openDatabase } from "../../src/store/engine/database.ts";
import { DatabaseRestarted } from "../../src/store/engine/database-errors.ts";
import { openEmbeddedEngine } from "../../src/store/engine/embedded/engine.ts";
import { runUpkeep } from "../../src/store/engine/embedded/upkeep.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { templateDirectory } from "../support/database-template.ts";
import { eventually } from "../support/eventually.ts";

const logger = createLogger("silent");
const template = await templateDirectory();
const root = await mkdtemp(path.join(tmpdir(), "pierhead-embedded-"));
let opened: Promise<Db> | undefined;
after(async () => {
  await (await opened)?.close();
  await rm(root, { recursive: true, force: true });
});

test("every commit reaches the disk, unless durability is off", async () => {
  for (const durable of [true, false]) {
    const engine = await openEmbeddedEngine({
      directory: path.join(root, `durable-${durable}`),
      durable,
      templateDirectory: template,
      answerTimeoutMs: 60_000,
      logger,
    });
    const client = new pg.Client({ user: "postgres", database: "postgres", stream: () => engine.connect() });
    await client.connect();
    await client.query("create table t (i int)");
    const before = engine.fsyncs;
    for (let i = 0; i < 20; i += 1) await client.query("insert into t values ($1)", [i]);
    if (durable) assert.ok(engine.fsyncs - before >= 20, `${engine.fsyncs - before} fsyncs for 20 commits`);
    else assert.equal(engine.fsyncs, 0);
    await client.end();
    await engine.close();
  }
});

test("when the worker dies, the query in flight fails as retryable and the next one finds everything committed", async () => {
  const { db } = await shared();
  await db.query(sql`create table t (i int)`);
  await db.query(sql`insert into t values (${1})`);
  const inFlight = db.query(sql`select count(*) from generate_series(1, 1000000000)`);
  const waiting = db.query<{ i: number }>(sql`select i from t`);
  const failed = assert.rejects(inFlight, (error) => error instanceof DatabaseRestarted && error.isRetryable);
  await db.engine?.crash();
  await failed;
  assert.deepEqual((await waiting).rows, [{ i: 1 }]);
});

test("when the worker dies in a transaction, the transaction fails as retryable and is rolled back", async () => {
  const { db } = await shared();
  await db.query(sql`create table t (i int)`);
  const lost = db.transaction(async (trx) => {
    await trx.query(sql`insert into t values (1)`);
    await db.engine?.crash();
    await trx.query(sql`insert into t values (2)`);
  });
  await assert.rejects(lost, DatabaseRestarted);
  assert.deepEqual((await db.query(sql`select i from t`)).rows, []);
});

test("stops a statement that never ends, and the database answers again", async () => {
  const engine = await openEmbeddedEngine({
    directory: path.join(root, "endless"),
    durable: false,
    templateDirectory: template,
    answerTimeoutMs: 2_000,
    logger,
  });
  const pool = new pg.Pool({ user: "postgres", database: "postgres", max: 1, stream: () => engine.connect() });
  pool.on("error", () => {});
  await assert.rejects(pool.query("select count(*) from generate_series(1, 1000000000000)"), DatabaseRestarted);
  assert.equal((await pool.query("select 1 as one")).rows[0].one, 1);
  await pool.end();
  await engine.close();
});

test("a connection never sees the transaction or the statement names of the previous one", async () => {
  const { engine } = (await shared()).db;
  assert.ok(engine);
  const connect = async () => {
    const client = new pg.Client({ user: "postgres", database: "postgres", stream: () => engine.connect() });
    await client.connect();
    return client;
  };
  const first = await connect();
  await first.query("create table t (i int)");
  await first.query({ name: "s1", text: "select $1::int", values: [1] });
  await first.query("begin");
  await first.query("insert into t values (1)");
  await first.end();
  const second = await connect();
  await second.query({ name: "s1", text: "select $1::text", values: ["a"] });
  assert.equal((await second.query("select count(*)::int as n from t")).rows[0].n, 0);
  await second.end();
});

test("reports why a damaged database directory does not open, without hanging", async () => {
  const dataDir = path.join(root, "broken");
  const first = await openDatabase({ dataDir, templateDirectory: template, logger });
  await first.close();
  await rm(path.join(dataDir, "database", "global", "pg_control"));
  await assert.rejects(openDatabase({ dataDir, templateDirectory: template, logger }), /did not open: .+/);
});

test("large parameters and results cross the bridge complete", async () => {
  const { db } = await shared();
  const text = "äöü€".repeat(500_000);
  const { rows } = await db.query<{ text: string }>(sql`select ${text}::text || 'end' as text`);
  assert.equal(rows[0]?.text, `${text}end`);
});

test("upkeep recycles the write-ahead log and frees dead rows", async () => {
  const { db } = await shared();
  const walAhead = async () => {
    const { rows } = await db.query<{ bytes: number }>(sql`
      select (pg_current_wal_insert_lsn() - redo_lsn)::float8 as bytes from pg_control_checkpoint()`);
    return rows[0]?.bytes ?? 0;
  };
  await db.query(sql`create table t (i int, filler text)`);
  await db.query(sql`insert into t select i, repeat('x', 1000) from generate_series(1, 80000) i`);
  assert.ok((await walAhead()) > 64 * 1024 * 1024);
  await runUpkeep(db);
  assert.ok((await walAhead()) < 1024 * 1024);
  await db.query(sql`delete from t where i % 2 = 0`);
  const vacuumed = async () => {
    await runUpkeep(db);
    const { rows } = await db.query<{ count: number }>(sql`
      select vacuum_count as count from pg_stat_user_tables where relname = 't'`);
    return rows[0]?.count ?? 0;
  };
  await eventually(vacuumed, (count) => count > 0, { what: "vacuum" });
});

test("closing twice is harmless, and a closed database refuses statements at once", async () => {
  const db = await openDatabase({ dataDir: path.join(root, "closed"), templateDirectory: template, logger });
  await Promise.all([db.close(), db.close()]);
  await db.close();
  await assert.rejects(db.query(sql`select 1`), /end|destroyed|closed/);
});

/** One database for the tests that leave it usable, because opening takes a second. */
async function shared(): Promise<{ db: Db }> {
  opened ??= openDatabase({ dataDir: path.join(root, "shared"), templateDirectory: template, logger });
  const db = await opened;
  await db.query(sql`drop table if exists t`);
  return { db };
}
