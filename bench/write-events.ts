import type { Db, Trx } from "../src/store/engine/database.ts";
import { sql } from "../src/store/engine/sql.ts";

export interface WrittenEvent {
  id: number;
  /** When the commit was acknowledged, in milliseconds of the clock that all processes share. */
  committedAtMs: number;
}

export const sharedClockMs = () => performance.timeOrigin + performance.now();

/** Writes single events at a rate per second, as status moves do. */
export async function writeEvents(
  db: Db,
  tenantId: string,
  run: { count: number; perS: number },
): Promise<WrittenEvent[]> {
  const written: WrittenEvent[] = [];
  const beganMs = performance.now();
  for (let index = 0; index < run.count; index += 1) {
    const dueMs = beganMs + (index * 1_000) / run.perS - performance.now();
    if (dueMs > 0) await new Promise((resolve) => setTimeout(resolve, dueMs));
    const [id] = await insert(db, tenantId, 1);
    const committedAtMs = sharedClockMs();
    db.changes.wakeWatchers();
    written.push({ id: id as number, committedAtMs });
  }
  return written;
}

const writers = 8;

/** Writes many in transactions of one to ten, eight at a time. Every tenth transaction is rolled back. @returns the committed numbers. */
export async function writeManyEvents(db: Db, tenantId: string, count: number): Promise<number[]> {
  const ids: number[] = [];
  let left = count;
  const write = async () => {
    for (let turn = 0; left > 0; turn += 1) {
      const rows = Math.min(left, 1 + (turn % 10));
      left -= rows;
      const isUndone = turn % 10 === 9;
      const done = await db
        .transaction(async (trx) => {
          const made = await insert(trx, tenantId, rows);
          if (isUndone) throw new Undone();
          return made;
        })
        .catch((error: unknown) => {
          if (error instanceof Undone) return [];
          throw error;
        });
      ids.push(...done);
      db.changes.wakeWatchers();
    }
  };
  await Promise.all(Array.from({ length: writers }, write));
  return ids;
}

class Undone extends Error {}

async function insert(db: Db | Trx, tenantId: string, rows: number): Promise<number[]> {
  const data = { from: "DEPLOYING", to: "DEPLOYED", because: "healthy, and traffic has moved", message: null };
  const { rows: made } = await db.query<{ id: number }>(sql`
    insert into events (tenant_id, deployment_id, revision_id, kind, data)
    select ${tenantId}, gen_random_uuid(), gen_random_uuid(), 'revision.status', ${JSON.stringify(data)}
      from generate_series(1, ${rows}::int) returning id`);
  return made.map(({ id }) => id);
}

/** The floor: what the bare engine needs to read a row that was just committed. */
export async function readBack(db: Db, tenantId: string, count: number): Promise<number[]> {
  const latenciesMs: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const [id] = await insert(db, tenantId, 1);
    const beganMs = performance.now();
    await db.query(sql`select id, kind, data from events where id = ${id}`);
    latenciesMs.push(performance.now() - beganMs);
  }
  return latenciesMs;
}
