import { type RawBuilder, sql } from "kysely";
import { changePollIntervalMs } from "../domain/limits.ts";
import type { Db, Trx } from "./database.ts";

/**
 * The end of a `with` list: for every row of an earlier one (`source`, with `deployment_id` and `tenant_id`) it writes a
 * change and makes the deployment due, so both commit with what changed. Adds the names `announced_change` and
 * `announced_pass`. After the commit, `db.changes.wake()`.
 *
 * Ordered, so that two statements that announce the same deployments wait for each other instead of deadlocking.
 * @param options.unless a boolean column of `source`: such a row is a change but makes nothing due.
 */
export function announced(source: string, { unless }: { unless?: string } = {}): RawBuilder<unknown> {
  const rows = sql.table(source);
  const due = unless === undefined ? rows : sql`${rows} where not ${sql.ref(unless)}`;
  return sql`announced_change as (
      insert into deployment_changes (tenant_id, deployment_id)
      select distinct tenant_id, deployment_id from ${rows} order by deployment_id
    ), announced_pass as (
      insert into reconcile_queue (deployment_id, run_at)
      select distinct deployment_id, now() from ${due} order by deployment_id
      on conflict (deployment_id) do update
         set run_at = least(reconcile_queue.run_at, excluded.run_at), generation = reconcile_queue.generation + 1
    )`;
}

/** The same as a statement of its own, for a change that is not written by SQL of the store. */
export async function announceChange(db: Db | Trx, deployment: { id: string; tenantId: string }): Promise<void> {
  await sql`
    with source as (select ${deployment.id}::uuid as deployment_id, ${deployment.tenantId}::uuid as tenant_id),
    ${announced("source")}
    select 1`.execute(db.kysely);
  if ("changes" in db) db.changes.wake();
}

export interface Change {
  id: number;
  tenantId: string;
  deploymentId: string;
}

/** One read of a follower. A full page is followed by another at once. */
const pageMax = 500;

/**
 * Numbers are given out before commits: a smaller one may appear after a greater one. A missing number is looked for this
 * long, which is longer than any of our statements may run (`statementTimeoutMs` in database.ts); then its
 * transaction was undone.
 */
const gapPatienceMs = 60_000;

/** Gaps that are remembered; a server that undoes thousands of transactions a minute has other troubles. */
const gapsMax = 5_000;

/**
 * All changes after a cursor (an id; null: from now on), in batches as they are committed, until `signal` aborts. Each
 * is given once, and none is lost, but a batch is not always in order of ids.
 */
export async function* followChanges(
  db: Db,
  options: { after: number | null; signal: AbortSignal },
): AsyncGenerator<Change[], void, undefined> {
  const { signal } = options;
  const gaps = new Map<number, number>();
  let cursor = options.after ?? (await lastChange(db));
  while (!signal.aborted) {
    const woken = nextLook(db, signal);
    const found = await readChanges(db, cursor, [...gaps.keys()]);
    cursor = noteGaps(gaps, found, cursor);
    if (found.length > 0) yield found;
    if (found.length < pageMax) await woken;
  }
}

export async function lastChange(db: Db): Promise<number> {
  const { rows } = await sql<{ id: number }>`select coalesce(max(id), 0) as id from deployment_changes`.execute(
    db.kysely,
  );
  return rows[0]?.id ?? 0;
}

/** Forgets all but the newest changes: they wake readers and hold no state. @returns how many went. */
export async function trimChanges(db: Db, keep = 100_000): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from deployment_changes where id <= (select max(id) from deployment_changes) - ${keep}`.execute(db.kysely);
  return Number(numAffectedRows ?? 0);
}

async function readChanges(db: Db, cursor: number, gaps: number[]): Promise<Change[]> {
  const { rows } = await sql<Change>`
    select id, tenant_id as "tenantId", deployment_id as "deploymentId" from deployment_changes
     where id > ${cursor} or id = any(${gaps}::bigint[]) order by id limit ${pageMax}`.execute(db.kysely);
  return rows;
}

/** Strikes out what was found, and remembers the numbers that were jumped over. @returns the new cursor. */
function noteGaps(gaps: Map<number, number>, found: Change[], cursor: number): number {
  const now = performance.now();
  for (const { id } of found) {
    gaps.delete(id);
    for (let missing = cursor + 1; missing < id && gaps.size < gapsMax; missing += 1) gaps.set(missing, now);
    cursor = Math.max(cursor, id);
  }
  for (const [id, since] of gaps) {
    if (now - since <= gapPatienceMs) break;
    gaps.delete(id);
  }
  return cursor;
}

/** Resolves when someone announces a change, at the latest after the poll interval, and at once when aborted. */
function nextLook(db: Db, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stop();
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const stop = db.changes.onWake(done);
    const timer = setTimeout(done, changePollIntervalMs);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}
