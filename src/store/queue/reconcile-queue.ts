import { backOffMaxMs, backOffMinMs } from "../../domain/limits.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import { batched } from "../engine/batched.ts";
import type { Db, Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";

/**
 * A claim on the keyed queue of deployments to reconcile, which has one row per deployment, however often it is enqueued.
 * `run_at` null means no work. A row is leased while a pass runs. A pass that dies is repeated when its lease expires.
 */
export interface Claim {
  deploymentId: string;
  /** Number of this claim. Only this number can settle or fail the pass, even if another server claims the deployment later. */
  generation: number;
  /** Consecutive failed passes, without this one. */
  attempts: number;
}

/** A slower statement is cancelled (30 s), so a slow database is not mistaken for a clock that was set. */
const clockApartMsMax = 30_000;

/** Condition: the database's clock shows the time that this server expects. Otherwise it was set, and deadlines shift within a second. */
export const isClockInSync = (db: Db): Sql =>
  sql`abs(extract(epoch from now() - ${db.now()}::timestamptz)) < ${clockApartMsMax / 1_000}::float8`;

type ClaimKey = { deploymentId: string; owner: string; generation: number };

/** Pass outcomes kept for diagnosis, newest first. */
const outcomesMax = 10;

/** CTE body or statement that enqueues one deployment. A pass that runs now is followed by another one. */
function enqueueSql(deploymentId: string, runAt: Date | null = null) {
  return sql`
      insert into reconcile_queue (deployment_id, run_at) values (${deploymentId}, coalesce(${runAt}::timestamptz, now()))
      on conflict (deployment_id) do update
         set run_at = least(reconcile_queue.run_at, excluded.run_at), generation = reconcile_queue.generation + 1`;
}

/** Enqueues a deployment, now or for a time; an earlier time that is already set stays. */
export async function enqueue(db: Db | Trx, deploymentId: string, options: { runAt?: Date } = {}): Promise<void> {
  await db.query(enqueueSql(deploymentId, options.runAt));
}

/**
 * Leases deployments that are due or whose lease expired, the longest waiting first. Rows that another worker is claiming
 * are skipped. Returns none while the database's clock differs from the time that this server expects.
 * @param worker.owner unique for each start of a server.
 */
export async function claim(db: Db, worker: { owner: string; limit: number; leaseMs: number }): Promise<Claim[]> {
  const isKnown = isClockInSync(db);
  const { rows } = await db.query<Claim>(sql`
    with abandoned as (
      select deployment_id, lease_until as since from reconcile_queue where lease_owner is not null and lease_until < now() and ${isKnown}
       order by lease_until limit ${worker.limit} for update skip locked
    ), due as (
      select deployment_id, run_at as since from reconcile_queue where lease_owner is null and run_at <= now() and ${isKnown}
       order by run_at limit ${worker.limit} for update skip locked
    ), chosen as (
      select deployment_id from (select * from abandoned union all select * from due) candidate order by since limit ${worker.limit}
    )
    update reconcile_queue q
       set lease_owner = ${worker.owner} || '/' || (generation + 1), generation = generation + 1, run_at = null,
           lease_until = now() + ${worker.leaseMs} * interval '1 millisecond',
           attempts = case when lease_owner is null then attempts else attempts + 1 end
      from chosen c where q.deployment_id = c.deployment_id
    returning q.deployment_id as "deploymentId", q.generation, q.attempts`);
  return rows;
}

/** Extends this worker's leases on the given deployments. @returns the ones it lost; their passes can no longer settle. */
export async function heartbeat(
  db: Db,
  worker: { owner: string; deploymentIds: string[]; leaseMs: number },
): Promise<string[]> {
  const { rows } = await db.query<{ deployment_id: string }>(sql`
    update reconcile_queue set lease_until = now() + ${worker.leaseMs} * interval '1 millisecond'
     where deployment_id = any(${worker.deploymentIds}::uuid[]) and starts_with(lease_owner, ${`${worker.owner}/`})
    returning deployment_id`);
  const held = new Set(rows.map((row) => row.deployment_id));
  return worker.deploymentIds.filter((id) => !held.has(id));
}

/**
 * Ends a pass as planned: the next one runs at `retryAt` (null: at the next change), or at once if something changed while
 * this one ran.
 * @returns false, and writes nothing, when another worker holds the lease.
 */
export const settlePass = batched(
  async (
    db,
    passes: (ClaimKey & { outcome: { kind: string; because: string; durationMs: number }; retryAt: Date | null })[],
  ): Promise<boolean[]> => {
    const ended = passes.map(({ deploymentId, owner, generation, outcome, retryAt }) => ({
      deployment_id: deploymentId,
      holder: `${owner}/${generation}`,
      retry_at: retryAt,
      outcome: {
        kind: outcome.kind,
        because: sanitizeText(outcome.because),
        duration_ms: Math.round(outcome.durationMs),
      },
    }));
    const { rows } = await db.query<{ deployment_id: string; holder: string }>(sql`
      with ended as (
        select * from jsonb_to_recordset(${JSON.stringify(ended)}::jsonb)
          as e (deployment_id uuid, holder text, retry_at timestamptz, outcome jsonb)
      )
      update reconcile_queue q
         set lease_owner = null, lease_until = null, attempts = 0, run_at = least(q.run_at, e.retry_at),
             outcomes = ${withOutcome(sql`e.outcome`)}
        from ended e
       where q.deployment_id = any(${passes.map(({ deploymentId }) => deploymentId)}::uuid[])
         and q.deployment_id = e.deployment_id and q.lease_owner = e.holder
      returning q.deployment_id, e.holder`);
    const held = new Set(rows.map((row) => row.deployment_id + row.holder));
    return ended.map((one) => held.has(one.deployment_id + one.holder));
  },
);

/**
 * Ends a pass that failed unexpectedly. The next one runs after 1 s, doubled with each failure up to 5 min, times 0.5 to 1
 * so that passes that failed together do not return together. After a change during the pass it runs after the shortest delay.
 * @returns false, and writes nothing, when another worker holds the lease.
 */
export async function failPass(db: Db, pass: ClaimKey & { because: string; durationMs: number }): Promise<boolean> {
  const failure = { kind: "failed", because: sanitizeText(pass.because), duration_ms: Math.round(pass.durationMs) };
  const { rows } = await db.query(sql`
    update reconcile_queue
       set lease_owner = null, lease_until = null, attempts = attempts + 1,
           run_at = least(
             now() + least(${backOffMaxMs}::float8, ${backOffMinMs}::float8 * 2 ^ least(attempts, 30)) * (0.5 + random() / 2)
                   * interval '1 millisecond',
             case when run_at is not null then now() + ${backOffMinMs}::float8 * interval '1 millisecond' end),
           outcomes = ${withOutcome(sql`${JSON.stringify(failure)}::jsonb`)}
     where ${isHeldBy(pass)} returning 1`);
  return rows.length > 0;
}

/**
 * Ends the pass of a deployment that no longer exists: deletes the queue row, even if it was inserted after the delete. If
 * another worker has the lease, that worker does the same.
 */
export async function dropFromQueue(db: Db, pass: ClaimKey): Promise<void> {
  await db.query(sql`delete from reconcile_queue where ${isHeldBy(pass)}`);
}

/** Returns when the next deployment becomes due, as far as known now; null: none. */
export async function nextRunAt(db: Db): Promise<Date | null> {
  const { rows } = await db.query<{ at: Date | null }>(sql`
    select least((select min(run_at) from reconcile_queue where lease_owner is null and run_at is not null),
                 (select min(lease_until) from reconcile_queue where lease_owner is not null)) as at`);
  return rows[0]?.at ?? null;
}

const isHeldBy = (pass: ClaimKey) =>
  sql`deployment_id = ${pass.deploymentId} and lease_owner = ${`${pass.owner}/${pass.generation}`}`;

function withOutcome(outcome: Sql) {
  return sql`jsonb_path_query_array(
             jsonb_build_array(${outcome} || jsonb_build_object('at', now())) || outcomes,
             ${sql.raw(`'$[0 to ${outcomesMax - 1}]'`)})`;
}
