import type {
  CheckpointPayload,
  Thread,
  ThreadStatus,
  ThreadsRepo,
  ThreadsStateRepo,
} from "@langchain/langgraph-api/storage";
import type { AuthContext, AuthFilters, StateConnection, Stock } from "../stock.ts";
import { copyCheckpoints } from "./checkpoints.ts";
import { Conditions, order } from "./conditions.ts";
import type { Database, Query } from "./database.ts";
import { deleteThreads } from "./deletions.ts";
import { exact, plainText, searchable } from "./json.ts";

const columns = `thread_id, created_at, updated_at, metadata, config, status, "values", interrupts`;
const sortable = ["thread_id", "status", "created_at", "updated_at"];

/** Runs in progress on this replica. The worker of the server reports their end through the threads. */
export interface EndedRuns {
  /** Takes the result of the run that this replica executes on the thread. @returns false if it executes none. */
  takeResult(threadId: string, result: { checkpoint?: CheckpointPayload; exception?: Error }): boolean;
  /** Whether a temporary run on the thread has just ended on this replica. */
  endsTemporary(threadId: string): boolean;
}

/** The threads and, through the stock server, their states. */
export class Threads implements ThreadsRepo {
  readonly #database: Database;
  readonly #stock: Stock;
  readonly #ended: EndedRuns;
  readonly state: ThreadsStateRepo;

  constructor(database: Database, stock: Stock, ended: EndedRuns) {
    this.#database = database;
    this.#stock = stock;
    this.#ended = ended;
    this.state = stateOf(database, stock, this);
  }

  async *search(
    options: Parameters<ThreadsRepo["search"]>[0],
    auth: AuthContext | undefined,
  ): AsyncGenerator<{ thread: Thread; total: number }> {
    const { metadata, ids, status, values, limit, offset } = options;
    const value = { metadata, ids, status, values, limit, offset };
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:search", value);
    const where = conditionsOf(options, filters);
    if (ids != null && ids.length > 0) where.add("thread_id = any(?)", ids.map(plainText));
    // Counted apart: a count of all beside the page would read all rows for every page.
    const counted = { text: `select count(*) as n from @threads where ${where}`, values: [...where.values] };
    const rows = await this.#database.query<Thread>(
      `select ${columns} from @threads where ${where}
       ${order(options.sort_by, options.sort_order, sortable, "thread_id")}
       limit ${where.parameter(limit)} offset ${where.parameter(offset)}`,
      where.values,
    );
    if (rows.length === 0) return;
    const total = rows.length < limit ? offset + rows.length : await countOf(this.#database.query, counted);
    for (const thread of rows) yield { thread: present(thread), total };
  }

  async count(options: Parameters<ThreadsRepo["count"]>[0], auth: AuthContext | undefined): Promise<number> {
    const { metadata, values, status } = options;
    const value = { metadata, values, status, limit: 0, offset: 0 };
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:search", value);
    const where = conditionsOf(options, filters);
    return countOf(this.#database.query, {
      text: `select count(*) as n from @threads where ${where}`,
      values: where.values,
    });
  }

  async get(thread_id: string, auth: AuthContext | undefined): Promise<Thread> {
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:read", { thread_id });
    return this.#find(this.#database.query, thread_id, filters);
  }

  async put(
    thread_id: string,
    options: Parameters<ThreadsRepo["put"]>[1],
    auth: AuthContext | undefined,
  ): Promise<Thread> {
    const { if_exists } = options;
    const value = { thread_id, metadata: options.metadata, if_exists };
    const [filters, { metadata }] = await this.#stock.handleAuthEvent(auth, "threads:create", value);
    const [made] = await this.#database.query<Thread>(
      `insert into @threads (thread_id, status, metadata, search, config) values ($1, 'idle', $2, $3, '{}')
       on conflict do nothing returning ${columns}`,
      [plainText(thread_id), exact(metadata ?? {}), searchable(metadata ?? {})],
    );
    if (made !== undefined) return present(made);
    const [existing] = await this.#database.query<Thread>(`select ${columns} from @threads where thread_id = $1`, [
      thread_id,
    ]);
    if (existing === undefined || if_exists === "raise" || !this.#stock.isAuthMatching(existing.metadata, filters))
      throw new this.#stock.HttpError(409, { message: "Thread already exists" });
    return present(existing);
  }

  async patch(
    thread_id: string,
    options: Parameters<ThreadsRepo["patch"]>[1],
    auth: AuthContext | undefined,
  ): Promise<Thread> {
    const value = { thread_id, metadata: options.metadata };
    const [filters, { metadata }] = await this.#stock.handleAuthEvent(auth, "threads:update", value);
    return this.#database.transaction(async (query) => {
      const found = await this.#find(query, thread_id, filters, "for update");
      const changed = { ...found.metadata, ...metadata };
      const [row] = await query<Thread>(
        `update @threads set metadata = $2, search = $3, updated_at = now() where thread_id = $1 returning ${columns}`,
        [thread_id, exact(changed), searchable(changed)],
      );
      return present(row as Thread);
    });
  }

  /** Takes the result of a run. The engine writes it in the transaction that ends the run. */
  async setStatus(threadId: string, options: Parameters<ThreadsRepo["setStatus"]>[1]): Promise<void> {
    if (this.#ended.takeResult(threadId, options)) return;
    await this.#database.transaction((query) => writeResult(query, this.#stock, threadId, options));
  }

  async delete(thread_id: string, auth: AuthContext | undefined): Promise<string[]> {
    // The worker deletes the thread of a temporary run after its end. The transaction that ends the run does it.
    if (auth === undefined && this.#ended.endsTemporary(thread_id)) return [thread_id];
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:delete", { thread_id });
    return this.#database.transaction(async (query) => {
      await this.#find(query, thread_id, filters, "for update");
      await deleteThreads(query, this.#database.schema, [thread_id]);
      return [thread_id];
    });
  }

  async copy(thread_id: string, auth: AuthContext | undefined): Promise<Thread> {
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:read", { thread_id });
    const source = await this.#find(this.#database.query, thread_id, filters, "", 409);
    const id = this.#stock.newId();
    const metadata = { ...source.metadata, thread_id: id };
    await this.#stock.handleAuthEvent(auth, "threads:create", { thread_id: id, metadata });
    return this.#database.transaction(async (query) => {
      const [row] = await query<Thread>(
        `insert into @threads (thread_id, status, metadata, search, config) values ($1, 'idle', $2, $3, '{}') returning ${columns}`,
        [id, exact(metadata), searchable(metadata)],
      );
      await copyCheckpoints(query, thread_id, id);
      return present(row as Thread);
    });
  }

  async #find(query: Query, id: string, filters: AuthFilters, lock = "", status = 404): Promise<Thread> {
    const [row] = await query<Thread>(`select ${columns} from @threads where thread_id = $1 ${lock}`, [plainText(id)]);
    if (row === undefined || !this.#stock.isAuthMatching(row.metadata, filters))
      throw new this.#stock.HttpError(status, { message: `Thread with ID ${id} not found` });
    return present(row);
  }
}

/** Leaves out what a thread has not: the file engine answers no `values` before the first run. */
function present(thread: Thread): Thread {
  if (thread.values === null) thread.values = undefined as never;
  if (thread.interrupts === null) thread.interrupts = undefined as never;
  return thread;
}

async function countOf(query: Query, { text, values }: { text: string; values: unknown[] }): Promise<number> {
  const [row] = await query<{ n: string }>(text, values);
  return Number(row?.n);
}

function conditionsOf(
  options: { metadata?: Record<string, unknown>; values?: Record<string, unknown>; status?: ThreadStatus },
  filters: AuthFilters,
): Conditions {
  return new Conditions()
    .add("status = ?", options.status)
    .contains("search", options.metadata)
    .contains("values_search", options.values)
    .allowed("search", filters);
}

/**
 * Writes status, values and interrupts of a thread after a run. A run that was interrupted has no checkpoint to report; the
 * values of the thread stay as they were.
 */
export async function writeResult(
  query: Query,
  stock: Stock,
  threadId: string,
  { checkpoint, exception }: { checkpoint?: CheckpointPayload; exception?: Error },
): Promise<void> {
  const values = checkpoint === undefined ? null : (stock.serialiseAsDict(checkpoint.values) ?? null);
  const interrupts = Object.fromEntries(
    (checkpoint?.tasks ?? []).filter((task) => task.interrupts).map((task) => [task.id, task.interrupts]),
  );
  await query(
    `update @threads set updated_at = now(), "values" = coalesce($2, "values"), values_search = coalesce($3, values_search),
       interrupts = coalesce($4, interrupts),
       status = case when $5 then 'error' when $6 then 'interrupted'
         when exists (select 1 from @runs where thread_id = $1 and status in ('pending', 'running')) then 'busy' else 'idle' end
     where thread_id = $1`,
    [
      threadId,
      values,
      values === null ? null : searchable(JSON.parse(values)),
      checkpoint === undefined ? null : (stock.serialiseAsDict(interrupts) ?? null),
      exception !== undefined,
      (checkpoint?.next.length ?? 0) > 0,
    ],
  );
}

/** The state operations of the file engine, over the runs and threads of the database. */
function stateOf(database: Database, stock: Stock, threads: ThreadsRepo): ThreadsStateRepo {
  const unused: StateConnection = { with: async (act) => act({ runs: {}, threads: {} }) };
  const reading = new stock.State(unused, threads);
  const writing = async <T>(threadId: string | undefined, act: (state: ThreadsStateRepo) => Promise<T>): Promise<T> => {
    const id = threadId ?? "";
    const changed = { thread_id: id, values: undefined as unknown };
    const connection: StateConnection = {
      with: async (inside) => {
        const runs = await database.query<{ run_id: string; thread_id: string; status: string }>(
          "select run_id, thread_id, status from @runs where thread_id = $1 and status in ('pending', 'running')",
          [id],
        );
        return inside({ runs: Object.fromEntries(runs.map((run) => [run.run_id, run])), threads: { [id]: changed } });
      },
    };
    const result = await act(new stock.State(connection, threads));
    const values = stock.serialiseAsDict(changed.values);
    if (values !== undefined) {
      await database.query(
        `update @threads set "values" = $2, values_search = $3, updated_at = now() where thread_id = $1`,
        [id, values, searchable(JSON.parse(values))],
      );
    }
    return result;
  };
  return {
    get: (...args) => reading.get(...args),
    list: (...args) => reading.list(...args),
    post: (config, ...rest) => writing(config.configurable?.thread_id, (state) => state.post(config, ...rest)),
    bulk: (config, ...rest) => writing(config.configurable?.thread_id, (state) => state.bulk(config, ...rest)),
  };
}
