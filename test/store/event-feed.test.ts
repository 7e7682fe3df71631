import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import pg from "pg";
import { type Db, openDatabase } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { EventFeed } from "../../src/store/events/event-feed.ts";
import { gapTimeoutMs } from "../../src/store/events/event-order.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const logger = createLogger("silent");
const tenantId = randomUUID();

const insertion = `insert into events (tenant_id, deployment_id, kind, data) values ($1, $2, 'deployment.status', $3) returning id`;

async function write(db: Db, data: object, tenant = tenantId): Promise<void> {
  await db.query(sql`insert into events (tenant_id, deployment_id, kind, data)
            values (${tenant}, ${randomUUID()}, 'deployment.status', ${JSON.stringify(data)})`);
  db.changes.wakeWatchers();
}

/** Collects the events of one workspace. */
async function listen(feed: EventFeed, tenant: string | null = tenantId) {
  const ids: number[] = [];
  let isClosed = false;
  const { position, end } = await feed.subscribe(tenant, {
    onEvents: (events) => ids.push(...events.map(({ id }) => id)),
    onClosed: () => {
      isClosed = true;
    },
  });
  return { ids, position, end, isClosed: () => isClosed };
}

/** A missing number delays events by twice as long, so an event delivered within this time did not wait for one. */
const noWait = { timeoutMs: gapTimeoutMs / 2 };

const has = (count: number) => (ids: number[]) => ids.length >= count;

eachDatabase("a subscriber receives the later events of its workspace only, in order", async (db) => {
  const feed = new EventFeed(db, logger);
  await write(db, {});
  const [ours, theirs, all] = [await listen(feed), await listen(feed, randomUUID()), await listen(feed, null)];
  for (let i = 0; i < 1_200; i += 1) void write(db, { i });
  await eventually(() => ours.ids, has(1_200));
  assert.deepEqual(
    ours.ids,
    Array.from({ length: 1_200 }, (_, i) => i + 2),
  );
  assert.deepEqual([theirs.ids, all.ids], [[], ours.ids]);
  assert.equal(feed.position, 1_201);
  ours.end();
  await write(db, {});
  await eventually(() => all.ids, has(1_201));
  assert.equal(ours.ids.length, 1_200);
  await feed.close();
  assert.deepEqual([all.isClosed(), ours.isClosed()], [true, false]);
  await assert.rejects(listen(feed), { status: 503 });
});

eachDatabase("numbers of rolled-back transactions delay no subscriber", async (db) => {
  const feed = new EventFeed(db, logger);
  const { ids } = await listen(feed);
  for (let i = 0; i < 20; i += 1) {
    const undone = db.transaction(async (trx) => {
      await trx.query(sql`insert into events (tenant_id, kind) values (${tenantId}, 'webhook.disabled')`);
      throw new Error("undo");
    });
    await assert.rejects(undone);
    await write(db, {});
  }
  await eventually(() => ids, has(20), noWait);
  assert.deepEqual(
    ids,
    Array.from({ length: 20 }, (_, i) => 2 * i + 2),
  );
  await feed.close();
});

eachDatabase(
  "an event that commits after younger ones is delivered before them, even if it started before any subscription",
  async (db, { databaseUrl }) => {
    const slow = new pg.Client({ connectionString: databaseUrl });
    await slow.connect();
    const begin = async () => {
      await slow.query("begin");
      const { rows } = await slow.query(insertion, [tenantId, randomUUID(), "{}"]);
      return Number(rows[0].id);
    };
    const feed = new EventFeed(db, logger);
    const first = await begin();
    await write(db, {});
    const { ids, position } = await listen(feed);
    assert.ok(position < first);
    await slow.query("commit");
    await eventually(() => ids, has(2));
    const third = await begin();
    await write(db, {});
    await write(db, {}, randomUUID());
    assert.deepEqual(ids, [first, first + 1]);
    assert.equal(feed.position, first + 1);
    await slow.query("commit");
    await eventually(() => ids, has(4));
    assert.deepEqual(ids, [first, first + 1, third, third + 1]);
    await slow.end();
    await feed.close();
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "a long-reading session such as a backup delays no event",
  async (db, { databaseUrl }) => {
    const backup = new pg.Client({ connectionString: databaseUrl });
    await backup.connect();
    await backup.query("begin isolation level repeatable read; select count(*) from events");
    const feed = new EventFeed(db, logger);
    const { ids } = await listen(feed);
    await db.query(sql`select nextval(pg_get_serial_sequence('events', 'id'))`);
    await write(db, {});
    await eventually(() => ids, has(1), noWait);
    await backup.query("commit");
    await backup.end();
    await feed.close();
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "events of other servers arrive without polling, in the same order on every server",
  async (db, { databaseUrl }) => {
    const other = await openDatabase({ databaseUrl, dataDir: tmpdir(), logger, poolMax: 8 });
    try {
      const [here, there] = [new EventFeed(db, logger), new EventFeed(other, logger)];
      const [a, b] = [await listen(here), await listen(there)];
      const writers = [db, other].flatMap((one) => Array.from({ length: 6 }, () => one));
      await Promise.all(
        writers.map(async (one) => {
          for (let i = 0; i < 50; i += 1) await write(one, { i });
        }),
      );
      await eventually(
        () => Math.min(a.ids.length, b.ids.length),
        (count) => count >= 600,
      );
      assert.deepEqual(a.ids, b.ids);
      assert.deepEqual(
        a.ids,
        Array.from({ length: 600 }, (_, i) => i + 1),
      );
      await Promise.all([here.close(), there.close()]);
    } finally {
      await other.close();
    }
  },
  { kinds: ["postgres"] },
);

eachDatabase("restarts the feed when the database is reset to an earlier copy whose numbers repeat", async (db) => {
  const feed = new EventFeed(db, logger);
  for (let i = 0; i < 5; i += 1) await write(db, { i });
  const before = await listen(feed);
  await write(db, {});
  await eventually(() => before.ids, has(1));
  await db.transaction(async (trx) => {
    await trx.query(sql`delete from events where id > 2`);
    await trx.query(sql`select setval('events_id_seq', 2)`);
  });
  await eventually(before.isClosed, (isClosed) => isClosed, { timeoutMs: 20_000, what: "the end of what is not so" });
  const { ids, position } = await listen(feed);
  await write(db, {});
  await eventually(() => ids, has(1), noWait);
  assert.deepEqual([position, ids, await feed.settled()], [2, [3], 3]);
  await feed.close();
});

eachDatabase("a subscriber that joins after the last one left misses no event", async (db) => {
  const feed = new EventFeed(db, logger);
  (await listen(feed)).end();
  await write(db, {});
  const { ids, position } = await listen(feed);
  await write(db, {});
  await eventually(
    () => ids,
    (found) => found.includes(2),
  );
  assert.ok(position === 1 || ids.includes(1));
  assert.equal(await feed.settled(), 2);
  await feed.close();
});
