import { sql } from "kysely";
import type { Db } from "../../src/store/engine/database.ts";
import { eventually } from "../support/eventually.ts";

/**
 * Once it listens to other servers a database wakes everybody for what it may have missed: that is awaited here. The two come in
 * the order they were sent, so a word to those alone who follow events says that it is over.
 * @param servers that have opened the same database
 */
export async function isListening(db: Db, servers = 1): Promise<void> {
  if (db.kind === "embedded") return;
  const listening = async () =>
    (
      await sql`select 1 from pg_stat_activity where datname = current_database()
                 and application_name = 'pierhead changes' and query like '%listen%' and state = 'idle'`.execute(
        db.kysely,
      )
    ).rows.length;
  await eventually(listening, (count) => count >= servers);
  let isWork = false;
  const heard = Promise.withResolvers<void>();
  const stopWork = db.changes.onWake(() => {
    isWork = true;
  });
  const stopEvents = db.changes.onEvents(() => {
    if (!isWork) heard.resolve();
    isWork = false;
  });
  await sql`notify pierhead_events`.execute(db.kysely);
  await heard.promise;
  stopWork();
  stopEvents();
}
