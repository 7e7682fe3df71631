import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import pg from "pg";
import { openDatabase } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { isListening } from "./change-subscriber.ts";

const logger = createLogger("silent");

eachDatabase("a wake reaches local subscribers, but not after they unsubscribed", async (db) => {
  const received: string[] = [];
  const stopFirst = db.changes.onWake(() => received.push("first"));
  const stopSecond = db.changes.onWake(() => received.push("second"));
  db.changes.wake();
  stopFirst();
  db.changes.wake();
  stopSecond();
  db.changes.wake();
  assert.deepEqual(received, ["first", "second", "second"]);
});

eachDatabase(
  "a wake reaches other servers, even after they lost their connection, and does not return to its sender",
  async (db, { databaseUrl }) => {
    const other = await openDatabase({ databaseUrl, dataDir: tmpdir(), logger, poolMax: 2 });
    try {
      for (const one of [db, other]) await isListening(one, 2);
      let [here, there] = [0, 0];
      db.changes.onWake(() => (here += 1));
      other.changes.onWake(() => (there += 1));
      const wakeUntilHeard = () =>
        eventually(
          () => {
            db.changes.wake();
            here -= 1;
            return there;
          },
          (received) => received > 0,
        );
      await wakeUntilHeard();
      await db.query(sql`select pg_terminate_backend(pid) from pg_stat_activity
                 where application_name = 'pierhead changes' and datname = current_database()`);
      here = 0;
      there = 0;
      await eventually(
        () => Math.min(here, there),
        (received) => received > 0,
        { what: "a wake of both after they reconnected" },
      );
      here = 0;
      there = 0;
      await wakeUntilHeard();
      assert.equal(here, 0, "a server does not receive its own wakes from the database");
    } finally {
      await other.close();
    }
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "many wakes become few notifications, and the last one is never lost",
  async (db, { databaseUrl }) => {
    const listener = new pg.Client({ connectionString: databaseUrl });
    let received = 0;
    listener.on("notification", () => (received += 1));
    await listener.connect();
    await listener.query("listen pierhead_changes");
    await eventually(
      () => {
        db.changes.wake();
        return received;
      },
      (count) => count > 0,
    );
    await quiet(() => received);
    received = 0;
    const began = performance.now();
    for (let i = 0; i < 5_000; i += 1) {
      db.changes.wake();
      if (i % 100 === 0) await new Promise(setImmediate);
    }
    const stormMs = performance.now() - began;
    await eventually(
      () => received,
      (count) => count > 0,
    );
    await quiet(() => received);
    assert.ok(received <= stormMs / 19 + 2, `${received} notifications in ${stormMs} ms`);
    await listener.end();
  },
  { kinds: ["postgres"] },
);

/** Resolves once a count has not changed for a while. */
async function quiet(read: () => number): Promise<void> {
  let [last, since] = [read(), Date.now()];
  await eventually(
    () => {
      if (read() !== last) [last, since] = [read(), Date.now()];
      return Date.now() - since;
    },
    (stillMs) => stillMs > 1_500,
  );
}
