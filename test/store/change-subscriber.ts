import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { eventually } from "../support/eventually.ts";

/**
 * Waits until the database's servers listen to each other. A server that starts to listen first wakes its subscribers for
 * what it may have missed. Signals arrive in the order they were sent, so an events-only signal shows that this is over.
 * @param servers number of servers that have opened the database
 */
export async function isListening(db: Db, servers = 1): Promise<void> {
  if (db.kind === "embedded") return;
  const listening = async () =>
    (
      await db.query(sql`select 1 from pg_stat_activity where datname = current_database()
                 and application_name = 'pierhead changes' and query like '%listen%' and state = 'idle'`)
    ).rows.length;
  await eventually(listening, (count) => count >= servers);
  let isWork = false;
  const received = Promise.withResolvers<void>();
  const stopWork = db.changes.onWake(() => {
    isWork = true;
  });
  const stopEvents = db.changes.onEvents(() => {
    if (!isWork) received.resolve();
    isWork = false;
  });
  await db.query(sql`notify pierhead_events`);
  await received.promise;
  stopWork();
  stopEvents();
}
