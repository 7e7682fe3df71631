import type { Assistant, Run, RunKwargs, RunStatus, RunsRepo } from "@langchain/langgraph-api/storage";
import { Conditions } from "./conditions.ts";
import type { Query } from "./database.ts";
import { deleteRuns } from "./deletions.ts";
import { exact, plainText, searchable } from "./json.ts";
import { type CancelAction, endStream } from "./queue.ts";
import { signal } from "./signals.ts";

const columns = `r.run_id, r.thread_id, r.assistant_id, r.created_at, r.updated_at, r.status, r.metadata, r.kwargs, r.multitask_strategy`;

export interface FoundRun {
  run: Run;
  /** Metadata of its thread, by which the auth handler of the project decides. */
  threadMetadata: Record<string, unknown>;
}

/** @param lock `for update` locks the thread, as every change of a run does first. */
export async function findRun(
  query: Query,
  runId: string,
  threadId: string | undefined,
  lock?: "for update",
): Promise<FoundRun | undefined> {
  const [row] = await query<Run & { thread_metadata: Record<string, unknown> }>(
    `select ${columns}, t.metadata as thread_metadata from @runs r join @threads t using (thread_id)
     where r.run_id = $1 and ($2::text is null or r.thread_id = $2) ${lock === undefined ? "" : "for update of t"}`,
    [plainText(runId), threadId ?? null],
  );
  if (row === undefined) return undefined;
  const { thread_metadata, ...run } = row;
  return { run, threadMetadata: thread_metadata };
}

/**
 * Returns the stream of an ended run, whose row may be gone, with the metadata of its thread; null metadata: a version before
 * them ended it.
 */
export async function findStream(
  query: Query,
  runId: string,
  threadId: string | undefined,
): Promise<{ metadata: Record<string, unknown> | null } | undefined> {
  const where = "run_id = $1 and ($2::text is null or thread_id = $2)";
  const [row] = await query<{ metadata: Record<string, unknown> | null }>(
    `select metadata from @ended_streams where ${where}`,
    [plainText(runId), threadId ?? null],
  );
  return row;
}

export async function findAssistant(query: Query, id: string): Promise<Assistant | undefined> {
  const [row] = await query<Assistant>("select * from @assistants where assistant_id = $1", [plainText(id)]);
  return row;
}

export interface ThreadRow {
  thread_id: string;
  status: string;
  metadata: Record<string, unknown>;
  config: Config;
  values: unknown;
}

export type Config = NonNullable<RunKwargs["config"]>;

export async function findThread(
  query: Query,
  id: string,
  lock: "for update" | "" = "",
): Promise<ThreadRow | undefined> {
  const text = `select thread_id, status, metadata, config, "values" from @threads where thread_id = $1 ${lock}`;
  const [row] = await query<ThreadRow>(text, [plainText(id)]);
  return row;
}

export function searchRuns(query: Query, where: Conditions, limit: number, offset: number): Promise<Run[]> {
  return query<Run>(
    `select ${columns} from @runs r join @threads t using (thread_id) where ${where}
     order by r.created_at, r.run_id limit ${where.parameter(limit)} offset ${where.parameter(offset)}`,
    where.values,
  );
}

export async function setStatus(query: Query, runId: string, status: RunStatus): Promise<void> {
  await query("update @runs set status = $2, updated_at = now() where run_id = $1", [runId, status]);
}

export interface NewRun {
  runId: string;
  threadId: string;
  assistant: Assistant;
  kwargs: RunKwargs;
  metadata: Record<string, unknown>;
  options: Parameters<RunsRepo["put"]>[3];
  mayUse(threadMetadata: Record<string, unknown>): boolean;
  refuse(): Error;
}

/**
 * Adds a run as the file engine does, with the thread if it may be created.
 * @returns the run and those in progress on its thread; only these if they prevent it; nothing if there is no thread.
 */
export async function insertRun(query: Query, schema: string, given: NewRun): Promise<Run[]> {
  const { runId, threadId, assistant, options } = given;
  const thread = await lockThread(query, given);
  if (thread === undefined) return [];
  const inflight = await query<Run>(
    `select ${columns} from @runs r where r.thread_id = $1 and r.status in ('pending', 'running') order by r.due_at`,
    [threadId],
  );
  if (options.preventInsertInInflight && inflight.length > 0) return inflight;
  const { kwargs, metadata } = mergedKwargs(given, thread.created ? undefined : thread.row);
  const [run] = await query<Run>(
    `insert into @runs as r (run_id, thread_id, assistant_id, graph_id, status, metadata, search, kwargs, multitask_strategy, due_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + $10 * interval '1 second') returning ${columns}`,
    [
      runId,
      threadId,
      assistant.assistant_id,
      assistant.graph_id,
      options.status ?? "pending",
      exact(metadata),
      searchable(metadata),
      exact(kwargs),
      options.multitaskStrategy ?? "reject",
      options.afterSeconds ?? 0,
    ],
  );
  await signal(query, schema, "queue");
  return [run as Run, ...inflight];
}

/** Locks the thread of a new run and marks it busy, or creates it. */
async function lockThread(
  query: Query,
  { threadId, assistant, kwargs, metadata, options, mayUse, refuse }: NewRun,
): Promise<{ row: ThreadRow; created: boolean } | undefined> {
  const owner = { graph_id: assistant.graph_id, assistant_id: assistant.assistant_id };
  const config = kwargs.config ?? {};
  if (options.threadId === undefined || options.ifNotExists === "create") {
    const created = { ...owner, ...metadata };
    const configurable = { ...assistant.config?.configurable, ...config.configurable };
    const [row] = await query<ThreadRow>(
      `insert into @threads (thread_id, status, metadata, search, config) values ($1, 'busy', $2, $3, $4)
       on conflict do nothing returning thread_id, status, metadata, config, "values"`,
      [threadId, exact(created), searchable(created), exact({ ...assistant.config, ...config, configurable })],
    );
    if (row !== undefined) return { row, created: true };
  }
  const row = await findThread(query, threadId, "for update");
  if (row === undefined) return undefined;
  if (!mayUse(row.metadata)) throw refuse();
  if (row.status !== "busy") {
    row.metadata = { ...row.metadata, ...owner };
    row.config = {
      ...assistant.config,
      ...row.config,
      ...config,
      configurable: { ...assistant.config?.configurable, ...row.config.configurable, ...withoutCheckpoint(config) },
    };
    await query(
      "update @threads set status = 'busy', metadata = $2, search = $3, config = $4, updated_at = now() where thread_id = $1",
      [threadId, exact(row.metadata), searchable(row.metadata), exact(row.config)],
    );
  }
  return { row, created: false };
}

/** A run from an earlier checkpoint must not become the start of all later runs of the thread. */
function withoutCheckpoint({ configurable }: Config): Record<string, unknown> {
  const { checkpoint_id: _, checkpoint_ns: __, checkpoint_map: ___, ...rest } = configurable ?? {};
  return rest;
}

function mergedKwargs(
  { runId, threadId, assistant, kwargs, metadata, options }: NewRun,
  thread: ThreadRow | undefined,
): { kwargs: RunKwargs; metadata: Record<string, unknown> } {
  const config = kwargs.config ?? {};
  const userIds = [config, thread?.config, assistant.config].map((one) => one?.configurable?.["user_id"]);
  const configurable = {
    ...assistant.config?.configurable,
    ...thread?.config.configurable,
    ...config.configurable,
    run_id: runId,
    thread_id: threadId,
    graph_id: assistant.graph_id,
    assistant_id: assistant.assistant_id,
    user_id: userIds.find((id) => id != null) ?? options.userId,
  };
  const merged = { ...assistant.metadata, ...thread?.metadata, ...metadata };
  const context =
    typeof assistant.context !== "object" && assistant.context != null
      ? assistant.context
      : { ...(assistant.context as object), ...(kwargs.context as object) };
  return {
    metadata: merged,
    kwargs: { ...kwargs, config: { ...assistant.config, ...config, configurable, metadata: merged }, context },
  };
}

/** Stops a run: a waiting one at once, a running one through the replica that executes it. */
export async function cancelRun(query: Query, schema: string, run: Run, action: CancelAction): Promise<void> {
  const { run_id, thread_id } = run;
  // Waits for a claim that is not committed yet. Without it, the run is neither pending nor running for the statements below.
  await query("select 1 from @runs where run_id = $1 for update", [run_id]);
  // It may have begun or ended since it was read: the row decides.
  const running = await query(
    `update @runs set cancel_action = case when cancel_action = 'rollback' then cancel_action else $2 end
     where run_id = $1 and status = 'running' returning 1`,
    [run_id, action],
  );
  if (running.length > 0) return signal(query, schema, "cancel", run_id);
  if (action === "rollback") {
    await deleteRuns(query, schema, new Conditions().add("run_id = ?", run_id).add("status = ?", "pending"));
  } else {
    const stopped = await query(
      "update @runs set status = 'interrupted', updated_at = now() where run_id = $1 and status = 'pending' returning 1",
      [run_id],
    );
    if (stopped.length > 0) await endStream(query, schema, run_id, thread_id);
  }
  await refreshThread(query, thread_id);
}

/** A thread whose last run in progress is gone is no longer busy. */
export async function refreshThread(query: Query, threadId: string): Promise<void> {
  await query(
    `update @threads set status = 'idle', updated_at = now() where thread_id = $1 and status = 'busy'
       and not exists (select 1 from @runs where thread_id = $1 and status in ('pending', 'running'))`,
    [threadId],
  );
}
