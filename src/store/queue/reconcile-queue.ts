import { type RawBuilder, sql } from "kysely";
import { backOffMaxMs, backOffMinMs } from "../../domain/limits.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import { batched } from "../engine/batched.ts";
import type { Db, Trx } from "../engine/database.ts";

/**
 * The keyed queue of deployments to look at: one row each, however often it is announced. `run_at` null means nothing to
 * do; a row is leased while a pass runs. A pass that dies is repeated when its lease has run out.
 */
export interface Claim {
  deploymentId: string;
  /** Number of this claim: it alone can settle or fail the pass, whoever claimed the deployment later. */
  generation: number;
  /** Passes in a row that failed, this one not counted. */
  attempts: number;
}

/** A statement that takes longer is cancelled (30 s), so a database that is only slow is not taken for another time. */
const clockApartMsMax = 30_000;

/** Whether the database's clock is what this server believes: otherwise somebody has set it, and deadlines follow within a second. */
export const isClockInSync = (db: Db): RawBuilder<boolean> =>
  sql`abs(extract(epoch from now() - ${db.now()}::timestamptz)) < ${clockApartMsMax / 1_000}::float8`;

type ClaimKey = { deploymentId: string; owner: string; generation: number };

/** Pass outcomes kept for those who ask why; newest first. */
const outcomesMax = 10;

/** CTE body or statement that makes one deployment due. A pass that runs now is followed by another one. */
export function enqueueSql(deploymentId: string, runAt: Date | null = null) {
  return sql`
      insert into reconcile_queue (deployment_id, run_at) values (${deploymentId}, coalesce(${runAt}::timestamptz, now()))
      on conflict (deployment_id) do update
         set run_at = least(reconcile_queue.run_at, excluded.run_at), generation = reconcile_queue.generation + 1`;
}

/** Makes a deployment due, now or at a time; an earlier time that is set already stays. */
export async function enqueue(db: Db | Trx, deploymentId: string, options: { runAt?: Date } = {}): Promise<void> {
  await enqueueSql(deploymentId, options.runAt).execute(db.kysely);
}

/**
 * Leases deployments that are due or whose lease ran out, the longest due first. What another worker is claiming at this
 * moment is passed over, not waited for. Nothing, as long as the database's clock is not what this server believes.
 * @param worker.owner unique to this start of this server.
 */
export async function claim(db: Db, worker: { owner: string; limit: number; leaseMs: number }): Promise<Claim[]> {
  const isKnown = isClockInSync(db);
  const { rows } = await sql<Claim>`
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
    returning q.deployment_id as "deploymentId", q.generation, q.attempts`.execute(db.kysely);
  return rows;
}

/** Renews what this worker holds of the given deployments. @returns those it lost; their passes can no longer settle. */
export async function heartbeat(
  db: Db,
  worker: { owner: string; deploymentIds: string[]; leaseMs: number },
): Promise<string[]> {
  const { rows } = await sql<{ deployment_id: string }>`
    update reconcile_queue set lease_until = now() + ${worker.leaseMs} * interval '1 millisecond'
     where deployment_id = any(${worker.deploymentIds}::uuid[]) and starts_with(lease_owner, ${`${worker.owner}/`})
    returning deployment_id`.execute(db.kysely);
  const held = new Set(rows.map((row) => row.deployment_id));
  return worker.deploymentIds.filter((id) => !held.has(id));
}

/**
 * Ends a pass as planned: run again at `retryAt` (null: when something changes), or at once if something changed while
 * it ran.
 * @returns false when the lease went to another worker meanwhile; nothing is written then.
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
    const { rows } = await sql<{ deployment_id: string; holder: string }>`
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
      returning q.deployment_id, e.holder`.execute(db.kysely);
    const held = new Set(rows.map((row) => row.deployment_id + row.holder));
    return ended.map((one) => held.has(one.deployment_id + one.holder));
  },
);

/**
 * Ends a pass that failed unexpectedly: again after 1 s, doubled with each failure up to 5 min, times 0.5 to 1 so that
 * those who failed together do not return together. A change that came meanwhile is looked at after the shortest delay.
 * @returns false when the lease went to another worker meanwhile; nothing is written then.
 */
export async function failPass(db: Db, pass: ClaimKey & { because: string; durationMs: number }): Promise<boolean> {
  const failure = { kind: "failed", because: sanitizeText(pass.because), duration_ms: Math.round(pass.durationMs) };
  const { rows } = await sql`
    update reconcile_queue
       set lease_owner = null, lease_until = null, attempts = attempts + 1,
           run_at = least(
             now() + least(${backOffMaxMs}::float8, ${backOffMinMs}::float8 * 2 ^ least(attempts, 30)) * (0.5 + random() / 2)
                   * interval '1 millisecond',
             case when run_at is not null then now() + ${backOffMinMs}::float8 * interval '1 millisecond' end),
           outcomes = ${withOutcome(sql`${JSON.stringify(failure)}::jsonb`)}
     where ${isHeldBy(pass)} returning 1`.execute(db.kysely);
  return rows.length > 0;
}

/**
 * Ends the pass that found its deployment gone: the row goes too, however it came here after the delete. Lost to another
 * worker, that one finds the same.
 */
export async function dropFromQueue(db: Db, pass: ClaimKey): Promise<void> {
  await sql`delete from reconcile_queue where ${isHeldBy(pass)}`.execute(db.kysely);
}

/** When the next deployment becomes due, as far as is known now; null: none. */
export async function nextRunAt(db: Db): Promise<Date | null> {
  const { rows } = await sql<{ at: Date | null }>`
    select least((select min(run_at) from reconcile_queue where lease_owner is null and run_at is not null),
                 (select min(lease_until) from reconcile_queue where lease_owner is not null)) as at`.execute(
    db.kysely,
  );
  return rows[0]?.at ?? null;
}

const isHeldBy = (pass: ClaimKey) =>
  sql`deployment_id = ${pass.deploymentId} and lease_owner = ${`${pass.owner}/${pass.generation}`}`;

function withOutcome(outcome: RawBuilder<unknown>) {
  return sql`jsonb_path_query_array(
             jsonb_build_array(${outcome} || jsonb_build_object('at', now())) || outcomes,
             ${sql.raw(`'$[0 to ${outcomesMax - 1}]'`)})`;
}
