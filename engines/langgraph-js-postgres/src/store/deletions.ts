import { Conditions } from "./conditions.ts";
import type { Query } from "./database.ts";
import { signal } from "./signals.ts";

/** Deletes the runs that fulfil the conditions, with their events. Replicas that run one of them stop it. */
export async function deleteRuns(query: Query, schema: string, where: Conditions): Promise<string[]> {
  const rows = await query<{ run_id: string; status: string }>(
    `delete from @runs where ${where} returning run_id, status`,
    where.values,
  );
  const ids = rows.map((row) => row.run_id);
  await query("delete from @events where run_id = any($1)", [ids]);
  await query("delete from @ended_streams where run_id = any($1)", [ids]);
  await query("delete from @webhooks where run_id = any($1)", [ids]);
  for (const { run_id, status } of rows) {
    if (status === "running") await signal(query, schema, "cancel", run_id);
    await signal(query, schema, "events", run_id);
  }
  return ids;
}

/** Deletes the runs and checkpoints of threads. The threads stay, with their crons. */
export async function deleteStateOfThreads(query: Query, schema: string, ids: string[]): Promise<void> {
  await deleteRuns(query, schema, new Conditions().add("thread_id = any(?)", ids));
  for (const table of ["checkpoints", "checkpoint_writes", "checkpoint_blobs"])
    await query(`delete from @${table} where thread_id = any($1)`, [ids]);
}

/** Deletes threads with their runs, events and checkpoints. */
export async function deleteThreads(query: Query, schema: string, ids: string[]): Promise<void> {
  if (ids.length === 0) return;
  // Every statement on a thread locks its row first, so a run that is being added waits and then finds no thread.
  await query("select 1 from @threads where thread_id = any($1) order by thread_id for update", [ids]);
  await deleteStateOfThreads(query, schema, ids);
  const ended = await query<{ run_id: string }>(
    "delete from @ended_streams where thread_id = any($1) returning run_id",
    [ids],
  );
  await query("delete from @events where run_id = any($1)", [ended.map((row) => row.run_id)]);
  await query("delete from @threads where thread_id = any($1)", [ids]);
}

/** Deletes the checkpoints of one run, so that the thread is as it was before. */
export async function deleteCheckpointsOfRun(query: Query, threadId: string, runId: string): Promise<void> {
  const where = "thread_id = $1 and metadata ->> 'run_id' = $2";
  await query(
    `delete from @checkpoint_writes w using @checkpoints c
     where w.thread_id = c.thread_id and w.checkpoint_ns = c.checkpoint_ns and w.checkpoint_id = c.checkpoint_id
       and c.thread_id = $1 and c.metadata ->> 'run_id' = $2`,
    [threadId, runId],
  );
  await query(`delete from @checkpoints where ${where}`, [threadId, runId]);
  await query(
    `delete from @checkpoint_blobs b where b.thread_id = $1 and not exists (
       select 1 from @checkpoints c, jsonb_each_text(c.checkpoint -> 'channel_versions') v
       where c.thread_id = $1 and c.checkpoint_ns = b.checkpoint_ns and v.key = b.channel and v.value = b.version)`,
    [threadId],
  );
}
