import type { CheckpointPayload, Run, RunStatus } from "@langchain/langgraph-api/storage";
import type { Stock } from "../stock.ts";
import { Conditions } from "./conditions.ts";
import type { Database, Query } from "./database.ts";
import { deleteCheckpointsOfRun, deleteRuns } from "./deletions.ts";
import { exact } from "./json.ts";
import { signal } from "./signals.ts";
import { writeResult } from "./threads.ts";
import { addTokens, tokensOf } from "./tokens.ts";

export type CancelAction = "interrupt" | "rollback";

/** A run that this replica may execute until the lease ends. */
export interface Claim {
  run: Run;
  /** Identifies this claim. Every write of the execution names it. */
  lease: string;
  /** Claims since the last checkpoint of the run. */
  attempt: number;
  /** Number of the next event of the run's stream. */
  nextSeq: number;
}

const columns = `r.run_id, r.thread_id, r.assistant_id, r.created_at, r.updated_at, r.status, r.metadata, r.kwargs, r.multitask_strategy`;

/**
 * Claims up to `limit` due runs of the graphs that this replica has. A thread has at most one running run, and its runs begin
 * in the order of their creation.
 * @param busyThreads threads whose last execution on this replica has not ended yet.
 */
export async function claim(
  query: Query,
  { graphs, busyThreads, leaseMs, limit }: { graphs: string[]; busyThreads: string[]; leaseMs: number; limit: number },
): Promise<Claim[]> {
  const rows = await query<Run & { lease_owner: string; attempt: number; next_seq: number; resumes: boolean }>(
    `with due as (
       select p.run_id, p.thread_id from @runs p
       where p.status = 'pending' and p.due_at <= now() and p.graph_id = any($1) and p.thread_id <> all($2)
         and not exists (select 1 from @runs o where o.thread_id = p.thread_id and (o.status = 'running'
           or o.status = 'pending' and o.due_at <= now() and (o.due_at, o.run_id) < (p.due_at, p.run_id)))
       order by p.due_at, p.run_id limit $3 for update skip locked)
     update @runs r set status = 'running', lease_owner = gen_random_uuid()::text, updated_at = now(),
       lease_until = now() + $4 * interval '1 millisecond', last_checkpoint = c.latest,
       attempt = case when r.last_checkpoint is distinct from c.latest then 1 else r.attempt + 1 end
     from due left join lateral (
       select max(checkpoint_id) as latest from @checkpoints where thread_id = due.thread_id and checkpoint_ns = '') c on true
     where r.run_id = due.run_id
     returning ${columns}, r.lease_owner, r.attempt,
       (select coalesce(max(seq) + 1, 0) from @events e where e.run_id = r.run_id) as next_seq,
       exists (select 1 from @checkpoints k where k.thread_id = r.thread_id and k.metadata ->> 'run_id' = r.run_id) as resumes`,
    [graphs, busyThreads, limit, leaseMs],
  );
  return rows.map(({ lease_owner, attempt, next_seq, resumes, ...run }) => ({
    run: resumes ? resumed(run) : run,
    lease: lease_owner,
    attempt,
    nextSeq: next_seq,
  }));
}

/** Continues at the last checkpoint: the input is in the state already, and the first checkpoint is no longer the start. */
function resumed(run: Run): Run {
  const { checkpoint_id: _, checkpoint_map: __, ...configurable } = run.kwargs.config?.configurable ?? {};
  const { command: ___, ...kwargs } = run.kwargs;
  return { ...run, kwargs: { ...kwargs, input: null, config: { ...kwargs.config, configurable } } };
}

/**
 * Extends leases. A run that another transaction has locked is left out, so that it does not keep the others from being renewed.
 * @returns those that are still held, with what a request wants to happen to the run.
 */
export function renew(query: Query, leases: string[], leaseMs: number) {
  return query<{ lease: string; cancel_action: CancelAction | null; renewed: boolean }>(
    `with free as (
       select run_id from @runs where lease_owner = any($1) and status = 'running' for no key update skip locked),
     renewed as (
       update @runs r set lease_until = now() + $2 * interval '1 millisecond' from free where r.run_id = free.run_id
       returning r.run_id, r.cancel_action)
     select h.lease_owner as lease, coalesce(n.cancel_action, h.cancel_action) as cancel_action, n.run_id is not null as renewed
     from @runs h left join renewed n using (run_id) where h.lease_owner = any($1) and h.status = 'running'`,
    [leases, leaseMs],
  );
}

/** Puts runs whose lease has ended back into the queue. @returns their ids, and those that a request wanted to stop. */
export async function recover(database: Database) {
  const { query, schema } = database;
  const expired = `select run_id from @runs where status = 'running' and lease_until < now()`;
  const recovered = await query<{ run_id: string }>(
    `with back as (
       update @runs set status = 'pending', lease_owner = null, lease_until = null, recovered = recovered + 1, updated_at = now()
       where run_id in (${expired} and cancel_action is null for update skip locked) returning run_id),
     counted as (
       insert into @totals as t select 'recovered', count(*) from back having count(*) > 0
       on conflict (name) do update set total = t.total + excluded.total)
     select run_id from back`,
  );
  if (recovered.length > 0) await signal(query, schema, "queue");
  const cancelled = await query<{ run_id: string; thread_id: string; lease: string; temporary: boolean }>(
    `select run_id, thread_id, lease_owner as lease, coalesce((kwargs ->> 'temporary')::boolean, false) as temporary from @runs
     where run_id in (${expired} and cancel_action is not null) limit 100`,
  );
  return { recovered: recovered.map((row) => row.run_id), cancelled };
}

/**
 * Gives runs back to the queue at once. They do not count as an attempt. A run that a request has cancelled stays: it ends with
 * its lease, and no replica takes it up again.
 * @returns the ids of the runs.
 */
export async function handOver(database: Database, leases: string[]): Promise<string[]> {
  const rows = await database.query<{ run_id: string }>(
    `update @runs set status = 'pending', lease_owner = null, lease_until = null, attempt = greatest(attempt - 1, 0),
       updated_at = now()
     where lease_owner = any($1) and status = 'running' and cancel_action is null returning run_id`,
    [leases],
  );
  if (rows.length > 0) await signal(database.query, database.schema, "queue");
  return rows.map((row) => row.run_id);
}

export interface Outcome {
  runId: string;
  threadId: string;
  /** The input of the run. */
  input?: unknown;
  /** Its state at the end, as far as it is known. */
  values?: unknown;
  lease: string;
  status: RunStatus;
  /** The run's thread exists for the run only. */
  temporary: boolean;
  checkpoint?: CheckpointPayload;
  exception?: Error;
  webhook?: { url: string; payload: Record<string, unknown> };
}

/** Ends a run: its status, thread, stream and webhook change in one transaction. @returns false if the lease is lost. */
export function finish(database: Database, stock: Stock, outcome: Outcome): Promise<boolean> {
  const { runId, threadId, lease, status, temporary, webhook } = outcome;
  return database.transaction(async (query) => {
    await query("select 1 from @threads where thread_id = $1 for update", [threadId]);
    const [run] = await query<{ cancel_action: CancelAction | null }>(
      `update @runs set status = $3, lease_owner = null, lease_until = null, updated_at = now()
       where run_id = $1 and lease_owner = $2 and status = 'running' returning cancel_action`,
      [runId, lease, status],
    );
    if (run === undefined) return false;
    const tokens = await tokensOf(query, outcome);
    if (run.cancel_action === "rollback") {
      await deleteCheckpointsOfRun(query, threadId, runId);
      await deleteRuns(query, database.schema, new Conditions().add("run_id = ?", runId));
    } else {
      await endStream(query, database.schema, runId, threadId);
      if (webhook !== undefined) {
        await query("insert into @webhooks (run_id, url, payload) values ($1, $2, $3)", [
          runId,
          webhook.url,
          stock.serialiseAsDict(webhook.payload) ?? exact({}),
        ]);
      }
    }
    if (temporary) {
      // The events stay until their time is over: clients may still read them.
      await query("delete from @runs where thread_id = $1", [threadId]);
      await query("delete from @threads where thread_id = $1", [threadId]);
    } else {
      await writeResult(query, stock, threadId, run.cancel_action === "rollback" ? {} : outcome);
      await signal(query, database.schema, "queue");
    }
    // At the end, because other runs that end wait for these rows.
    if (tokens !== undefined) await addTokens(query, tokens);
    if (status === "error" || status === "timeout") await query(countFailed);
    return true;
  });
}

const countFailed = `insert into @totals as t (name, total) values ('failed', 1)
  on conflict (name) do update set total = t.total + 1`;

export interface QueueState {
  /** Runs that are due and have no worker. */
  pending: number;
  running: number;
  /** How long the oldest pending run has waited. */
  waitSeconds: number;
  /** Runs that ended with an error since the schema exists. */
  failed: number;
  /** Tokens that the models of the runs reported, likewise. Null: none reported any. */
  inputTokens: number | null;
  outputTokens: number | null;
  /** How often a run was taken from a dead replica, likewise. */
  recovered: number;
  /** Seconds until the next run, cron or webhook is due; 0: one is due now. Null: nothing waits and nothing is planned. */
  nextDueSeconds: number | null;
}

/** Returns the runs of all replicas. */
export async function readQueue(query: Query): Promise<QueueState> {
  const [state] = await query<QueueState>(
    `select p.pending, p.wait as "waitSeconds",
       (select count(*)::integer from @runs where status = 'running') as running,
       coalesce((select total::float8 from @totals where name = 'failed'), 0) as failed,
       coalesce((select total::float8 from @totals where name = 'recovered'), 0) as recovered,
       (select total::float8 from @totals where name = 'input_tokens') as "inputTokens",
       (select total::float8 from @totals where name = 'output_tokens') as "outputTokens",
       (select greatest(0, extract(epoch from at - now()))::float8 from (select least(
         (select min(due_at) from @runs where status = 'pending'),
         (select min(next_run_at) from @crons where enabled),
         (select min(due_at) from @webhooks)) as at) next where at is not null) as "nextDueSeconds"
     from (select count(*)::integer as pending, coalesce(extract(epoch from now() - min(due_at)), 0)::float8 as wait
       from @runs where status = 'pending' and due_at <= now()) p`,
  );
  return state as QueueState;
}

/** Marks the stream of a run as complete. */
export async function endStream(query: Query, schema: string, runId: string, threadId: string): Promise<void> {
  // With the metadata by which the auth handler decides: the thread of a run without one is deleted with the run.
  await query(
    `insert into @ended_streams (run_id, thread_id, metadata)
     values ($1, $2, (select metadata from @threads where thread_id = $2)) on conflict do nothing`,
    [runId, threadId],
  );
  await signal(query, schema, "events", runId);
}
