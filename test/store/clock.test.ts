import assert from "node:assert/strict";
import { sql } from "kysely";
import { acquireLease } from "../../src/store/leases.ts";
import { spans } from "../../src/store/spans.ts";
import { eachDatabase } from "../database.ts";
import { eventually } from "../eventually.ts";

eachDatabase("the database's time is known without asking, to within a second", async (db) => {
  const before = db.now().getTime();
  const { rows } = await sql<{ at: Date }>`select clock_timestamp() as at`.execute(db.kysely);
  const [at, after] = [rows[0]?.at.getTime() ?? 0, db.now().getTime()];
  // The answer may take its time: it was given at some moment between.
  assert.ok(at > before - 1_000 && at < after + 1_000, `${before} <= ${at} <= ${after}`);
});

eachDatabase(
  "every column with a deadline, a lease or a time to try again moves when the clock is set",
  async (db) => {
    const { rows } = await sql<{ table_name: string; column_name: string }>`
      select table_name, column_name from information_schema.columns
       where table_schema = 'public' and data_type = 'timestamp with time zone'
         and column_name ~ '(_until|^deadline_at|^retry_at|^run_at|^look_at|^next_attempt_at)$'`.execute(db.kysely);
    const missing = rows.filter(({ table_name, column_name }) => !spans[table_name]?.includes(column_name));
    assert.deepEqual(missing, []);
  },
  { kinds: ["embedded"] },
);

eachDatabase(
  "a lease of a minute lasts a minute, whoever sets the clock meanwhile",
  async (db) => {
    const lease = { name: "test", owner: "a", leaseMs: 60_000 };
    for (const jumpMs of [3_600_000, -3_600_000]) {
      // As if the machine's clock had been set by as much the other way, and the lease taken before anybody saw it.
      db.engine?.clock.add(jumpMs);
      await acquireLease(db, lease);
      await eventually(
        () => Math.abs(Date.now() - db.now().getTime()),
        (apartMs) => apartMs < 2_000,
        { what: "the database's clock follows" },
      );
      const left = () => sql<{ s: number }>`select extract(epoch from lease_until - now())::float8 as s from leases`;
      await eventually(
        async () => (await left().execute(db.kysely)).rows[0]?.s ?? 0,
        (seconds) => seconds > 0 && seconds <= 62,
        { what: "the lease follows" },
      );
    }
  },
  { kinds: ["embedded"] },
);
