import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { test } from "node:test";
import pg from "pg";
import { isUniqueViolation, openDatabase } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

eachDatabase("values arrive as numbers, dates, buffers and parsed JSON", async (db) => {
  const at = new Date("2026-01-02T03:04:05.678Z");
  const bytes = Buffer.from([0, 1, 254, 255]);
  const { rows } = await db.query(sql`
    select 9007199254740991::bigint as int8, array[1, null, 3]::bigint[] as int8s, ${at}::timestamptz as at,
           ${JSON.stringify({ a: [1, "ü"] })}::jsonb as json, ${bytes}::bytea as bytes, ${["a", 'b,"c']}::text[] as texts,
           count(*) as counted from generate_series(1, 3)`);
  assert.deepEqual(rows, [
    { int8: 9007199254740991, int8s: [1, null, 3], at, json: { a: [1, "ü"] }, bytes, texts: ["a", 'b,"c'], counted: 3 },
  ]);
});

eachDatabase("prepares each statement text once, also of composed templates, up to 500 texts", async (db) => {
  await db.transaction(async (trx) => {
    const prepared = async (part: string) => {
      const { rows } = await trx.query<{ n: number }>(sql`
        select count(*)::int as n from pg_prepared_statements where strpos(statement, ${part}) > 0`);
      return rows[0]?.n;
    };
    for (let i = 0; i < 3; i += 1) {
      await trx.query(sql`select ${i}::int as template_statement`);
      await trx.query(sql`select owner from ${sql.identifier("leases")} where ${sql`name = ${`composed ${i}`}`}`);
    }
    assert.equal(await prepared("as template_statement"), 1);
    assert.equal(await prepared('from "leases"'), 1);
    for (let i = 0; i < 600; i += 1) await trx.query(sql`select ${i}::int as ${sql.identifier(`many_${i}`)}`);
    const { rows } = await trx.query<{ n: number }>(sql`select count(*)::int as n from pg_prepared_statements`);
    assert.ok((rows[0]?.n ?? 0) <= 500, `${rows[0]?.n} prepared statements`);
  });
});

eachDatabase("refuses a second connection inside a transaction at once instead of waiting without end", async (db) => {
  await assert.rejects(
    db.transaction(() => db.query(sql`select 1`)),
    /inside a transaction/,
  );
  await assert.rejects(
    db.transaction(() => db.transaction(async () => {})),
    /inside a transaction/,
  );
  const { rows } = await db.query<{ one: number }>(sql`select 1 as one`);
  assert.deepEqual(rows, [{ one: 1 }]);
});

eachDatabase("a subscriber woken inside a transaction can use the database", async (db) => {
  const woken = Promise.withResolvers<unknown>();
  const stop = db.changes.onWake(() => db.query(sql`select 1`).then(woken.resolve, woken.reject));
  await db.transaction(async () => db.changes.wake());
  stop();
  await woken.promise;
});

eachDatabase("a transaction that throws changes nothing, and the caller gets its error", async (db) => {
  const error = new Error("mine");
  const undone = db.transaction(async (trx) => {
    await trx.query(sql`insert into leases (name, owner, lease_until) values ('a', 'b', now())`);
    throw error;
  });
  await assert.rejects(undone, error);
  assert.deepEqual((await db.query(sql`select name from leases`)).rows, []);
});

eachDatabase("reports a violated unique constraint by name", async (db) => {
  const insert = () => db.query(sql`insert into leases (name, owner, lease_until) values ('a', 'b', now())`);
  await insert();
  await assert.rejects(insert, (error) => isUniqueViolation(error) && isUniqueViolation(error, "leases_pkey"));
  await assert.rejects(insert, (error) => !isUniqueViolation(error, "another"));
  assert.equal(isUniqueViolation(new Error("x")), false);
});

eachDatabase(
  "two transactions that deadlock both succeed",
  async (db) => {
    await db.query(sql`insert into leases (name, owner, lease_until) values ('a', '', now()), ('b', '', now())`);
    const held = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    let tries = 0;
    const cross = (first: string, second: string, mine: 0 | 1) =>
      db.transaction(async (trx) => {
        tries += 1;
        await trx.query(sql`update leases set owner = owner || ${first} where name = ${first}`);
        held[mine].resolve();
        await held[1 - mine]?.promise;
        await trx.query(sql`update leases set owner = owner || ${first} where name = ${second}`);
      });
    await Promise.all([cross("a", "b", 0), cross("b", "a", 1)]);
    assert.ok(tries > 2, "they did not deadlock");
    const { rows } = await db.query<{ owner: string }>(sql`select owner from leases`);
    assert.deepEqual(
      rows.map((row) => [...row.owner].sort().join("")),
      ["ab", "ab"],
    );
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "a single statement that loses a deadlock runs again",
  async (db) => {
    await db.query(sql`insert into leases (name, owner, lease_until) values ('a', '', now()), ('b', '', now())`);
    await db.query(sql`
      create function cross_update(first text, second text) returns void language plpgsql as $$
      begin
        update leases set owner = owner || 'x' where name = first;
        perform pg_sleep(0.7);
        update leases set owner = owner || 'x' where name = second;
      end $$`);
    const cross = (first: string, second: string) => db.query(sql`select cross_update(${first}, ${second})`);
    await Promise.all([cross("a", "b"), cross("b", "a")]);
    const { rows } = await db.query(sql`select distinct owner from leases`);
    assert.deepEqual(rows, [{ owner: "xx" }]);
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "a connection ended by the server fails its statement, and the next one works",
  async (db, { databaseUrl }) => {
    const sleeping = db.query(sql`select pg_sleep(60)`);
    const failed = assert.rejects(sleeping, /terminat/);
    const killer = new pg.Client({ connectionString: databaseUrl });
    await killer.connect();
    await eventually(
      async () =>
        (
          await killer.query(
            "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(60)%' and pid <> pg_backend_pid()",
          )
        ).rowCount ?? 0,
      (killed) => killed > 0,
    );
    await killer.end();
    await failed;
    await db.query(sql`select 1`);
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "a statement may run longer only in a transaction with a longer limit",
  async (db) => {
    const limit = async (read: () => Promise<unknown>) => JSON.stringify(await read());
    const { rows } = await db.query<{ t: string }>(sql`select current_setting('statement_timeout') as t`);
    assert.deepEqual(rows, [{ t: "30s" }]);
    const inside = await limit(() =>
      db.transaction(async (trx) => (await trx.query(sql`select current_setting('statement_timeout') as t`)).rows, {
        timeoutMs: 600_000,
      }),
    );
    assert.equal(inside, '[{"t":"10min"}]');
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "closes a connection to a read-only server, and a new one reaches the new primary",
  async (_, { databaseUrl }) => {
    const logger = createLogger("silent");
    const admin = new pg.Client({ connectionString: databaseUrl });
    await admin.connect();
    const { rows } = await admin.query("select current_database() as name");
    const reads = (onOff: string) =>
      admin.query(
        `set transaction_read_only = off; alter database ${rows[0].name} set default_transaction_read_only = ${onOff}`,
      );
    await reads("on");
    const db = await openDatabase({ databaseUrl, dataDir: tmpdir(), logger, poolMax: 1 });
    try {
      const write = () => db.query(sql`insert into leases (name, owner, lease_until) values ('a', 'b', now())`);
      await assert.rejects(write(), /read-only transaction/);
      await reads("off");
      // Constant requests: no connection is idle for long enough to be closed.
      await write();
    } finally {
      await db.close();
      await admin.end();
    }
  },
  { kinds: ["postgres"] },
);

test("reports an unreachable server as an error without waiting", async () => {
  const logger = createLogger("silent");
  const databaseUrl = "postgresql://postgres@127.0.0.1:1/nowhere";
  await assert.rejects(openDatabase({ databaseUrl, dataDir: tmpdir(), logger }), /ECONNREFUSED/);
});

test("a connection that the server opens and closes at once is an error for its caller only", async () => {
  const message = (type: string, body: Buffer) => {
    const head = Buffer.alloc(5);
    head.write(type);
    head.writeInt32BE(body.length + 4, 1);
    return Buffer.concat([head, body]);
  };
  const farewell = "SFATAL\0VFATAL\0C57P01\0Mterminating connection due to unexpected postmaster exit\0\0";
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      const answers = [
        message("R", Buffer.alloc(4)),
        message("Z", Buffer.from("I")),
        message("E", Buffer.from(farewell)),
      ];
      socket.end(Buffer.concat(answers));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    const databaseUrl = `postgresql://postgres@127.0.0.1:${port}/short`;
    const logger = createLogger("silent");
    await assert.rejects(openDatabase({ databaseUrl, dataDir: tmpdir(), logger }), /unexpected postmaster exit/);
  } finally {
    server.close();
  }
});
