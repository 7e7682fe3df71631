import { openDatabase } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";

/**
 * A separate program for tests that need a process to kill: `engine-child.ts MODE DATA_DIR TEMPLATE_DIR`.
 *   write  two rows per transaction without end, with updates, checkpoints and vacuums between; prints each committed number
 *   hold   opens and waits
 *   close  writes, closes, and has nothing left to do
 *   leave  writes and forgets to close
 */
const [mode = "", dataDir = "", templateDirectory = ""] = process.argv.slice(2);
const db = await openDatabase({ dataDir, templateDirectory, logger: createLogger("silent") });
await db.query(
  sql`create table if not exists writes (id bigint primary key, half text not null, touched integer not null default 0)`,
);
await db.query(sql`create table if not exists halves (id bigint primary key)`);
process.stdout.write("open\n");

if (mode === "write") {
  const { rows } = await db.query<{ next: number }>(sql`select coalesce(max(id), 0) + 1 as next from writes`);
  for (let id = rows[0]?.next ?? 1; ; id += 1) {
    await write(id);
    process.stdout.write(`${id}\n`);
    if (id % 50 === 0) await db.query(sql`checkpoint`);
    if (id % 80 === 0) await db.query(sql`vacuum writes`);
  }
}
if (mode === "hold") setInterval(() => {}, 60_000);
if (mode === "close" || mode === "leave") await write(Date.now());
if (mode === "close") await db.close();

async function write(id: number): Promise<void> {
  await db.transaction(async (trx) => {
    await trx.query(sql`insert into writes (id, half) values (${id}, repeat('x', 2000))`);
    await trx.query(sql`update writes set touched = touched + 1 where id > ${id - 5}`);
    await trx.query(sql`insert into halves (id) values (${id})`);
  });
}
