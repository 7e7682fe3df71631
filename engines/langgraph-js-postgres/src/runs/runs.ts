import type { Run, RunKwargs, RunStatus, RunsRepo } from "@langchain/langgraph-api/storage";
import type { Settings } from "../settings.ts";
import type { AuthContext, AuthFilters, Stock } from "../stock.ts";
import { Conditions } from "../store/conditions.ts";
import type { Database, Query } from "../store/database.ts";
import { deleteCheckpointsOfRun, deleteRuns } from "../store/deletions.ts";
import * as rows from "../store/runs.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Executions } from "./executions.ts";
import { Streams } from "./streams.ts";
import type { WakeUps } from "./wake-ups.ts";

type PutOptions = Parameters<RunsRepo["put"]>[3];

/** The runs. */
export class Runs implements RunsRepo {
  readonly #database: Database;
  readonly #stock: Stock;
  readonly #executions: Executions;
  readonly #dispatcher: Dispatcher;
  readonly #lossesMax: number;
  readonly stream: Streams;

  constructor(
    database: Database,
    stock: Stock,
    { lossesMax }: Pick<Settings, "lossesMax">,
    executions: Executions,
    dispatcher: Dispatcher,
    wakeUps: WakeUps,
  ) {
    this.#lossesMax = lossesMax;
    this.#database = database;
    this.#stock = stock;
    this.#executions = executions;
    this.#dispatcher = dispatcher;
    this.stream = new Streams(database, stock, executions, wakeUps, this);
  }

  /** Gives runs to a worker of the stock server, one after the other. It waits for each, and ends after `close`. */
  async *next(): ReturnType<RunsRepo["next"]> {
    while (true) {
      const execution = await this.#dispatcher.take();
      if (execution === undefined) return;
      const { webhook: _, ...kwargs } = execution.run.kwargs;
      try {
        // Without its webhook, which the worker would wait for. The engine sends it.
        yield {
          run: { ...execution.run, kwargs },
          attempt: stockAttempt(execution.attempt, this.#lossesMax),
          signal: execution.abort.signal,
        };
      } finally {
        await this.#executions.settle(execution);
      }
    }
  }

  async put(...run: Parameters<RunsRepo["put"]>): Promise<Run[]> {
    return this.#database.transaction(await this.prepare(...run));
  }

  /** Asks the auth handler of the project, which may take its time, and returns what adds the run within a transaction. */
  async prepare(
    runId: string,
    assistantId: string,
    kwargs: RunKwargs,
    options: PutOptions,
    auth: AuthContext | undefined,
  ): Promise<(query: Query) => Promise<Run[]>> {
    const assistant = await rows.findAssistant(this.#database.query, assistantId);
    if (assistant === undefined) {
      const message = `No assistant found for "${assistantId}". Make sure the assistant ID is for a valid assistant or a valid graph ID.`;
      throw new this.#stock.HttpError(404, { message });
    }
    const [filters, { metadata }] = await this.#stock.handleAuthEvent(auth, "threads:create_run", {
      thread_id: options.threadId,
      assistant_id: assistantId,
      run_id: runId,
      status: options.status ?? "pending",
      metadata: options.metadata ?? {},
      prevent_insert_if_inflight: options.preventInsertInInflight,
      multitask_strategy: options.multitaskStrategy ?? "reject",
      if_not_exists: options.ifNotExists ?? "reject",
      after_seconds: options.afterSeconds ?? 0,
      kwargs,
    });
    const threadId = options.threadId ?? this.#stock.newId();
    return (query) =>
      rows.insertRun(query, this.#database.schema, {
        runId,
        threadId,
        assistant,
        kwargs,
        metadata: metadata ?? {},
        options,
        mayUse: (thread) => this.#stock.isAuthMatching(thread, filters),
        refuse: () => new this.#stock.HttpError(404),
      });
  }

  async get(runId: string, threadId: string | undefined, auth: AuthContext | undefined): Promise<Run | null> {
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:read", { thread_id: threadId });
    const found = await rows.findRun(this.#database.query, runId, threadId);
    return found !== undefined && this.#mayUse(found, filters) ? found.run : null;
  }

  async delete(runId: string, threadId: string | undefined, auth: AuthContext | undefined): Promise<string | null> {
    const value = { run_id: runId, thread_id: threadId };
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:delete", value);
    return this.#database.transaction(async (query) => {
      const found = await rows.findRun(query, runId, threadId, "for update");
      if (found === undefined || !this.#mayUse(found, filters))
        throw new this.#stock.HttpError(404, { message: "Run not found" });
      await deleteRuns(query, this.#database.schema, new Conditions().add("run_id = ?", runId));
      await deleteCheckpointsOfRun(query, found.run.thread_id, runId);
      await rows.refreshThread(query, found.run.thread_id);
      return runId;
    });
  }

  async wait(runId: string, threadId: string | undefined, auth: AuthContext | undefined): Promise<unknown> {
    const missing = await this.whyUnreadable(runId, threadId, auth);
    if (missing === "forbidden") return { __error__: { error: "Error", message: "404: Run not found" } };
    // It may be a run of another thread, whose output the caller must not see.
    if (missing === "missing") return null;
    return this.stream.lastOutputOf(runId);
  }

  async join(runId: string, threadId: string, auth: AuthContext | undefined): Promise<unknown> {
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:read", { thread_id: threadId });
    const found = await this.findThread(threadId);
    if (found === undefined || !this.#stock.isAuthMatching(found.metadata, filters))
      throw new this.#stock.HttpError(404, { message: `Thread with ID ${threadId} not found` });
    const output = await this.wait(runId, threadId, auth);
    return output ?? (await this.findThread(threadId))?.values ?? null;
  }

  async cancel(
    threadId: string | undefined,
    runIds: string[],
    options: { action?: "interrupt" | "rollback" },
    auth: AuthContext | undefined,
  ): Promise<void> {
    const action = options.action ?? "interrupt";
    const value = { thread_id: threadId, action, metadata: { run_ids: runIds, status: "pending" } };
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:update", value);
    const found = await this.#database.transaction(async (query) => {
      let count = 0;
      for (const runId of runIds) {
        const row = await rows.findRun(query, runId, threadId, "for update");
        if (row === undefined || !this.#mayUse(row, filters)) continue;
        count += 1;
        await rows.cancelRun(query, this.#database.schema, row.run, action);
      }
      return count;
    });
    if (found !== runIds.length) throw new this.#stock.HttpError(404, { message: "Run not found" });
  }

  async search(
    threadId: string,
    options: Parameters<RunsRepo["search"]>[1],
    auth: AuthContext | undefined,
  ): Promise<Run[]> {
    const { metadata, status } = options;
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:search", {
      thread_id: threadId,
      metadata,
      status,
    });
    const where = new Conditions().add("r.thread_id = ?", threadId).add("r.status = ?", status);
    where.contains("r.search", metadata).allowed("t.search", filters);
    return rows.searchRuns(this.#database.query, where, options.limit ?? 10, options.offset ?? 0);
  }

  /** Takes the status of a run from its worker. The transaction that ends the run writes it. */
  async setStatus(runId: string, status: RunStatus): Promise<void> {
    const execution = this.#executions.find(runId);
    if (execution !== undefined) execution.status = status;
    else await rows.setStatus(this.#database.query, runId, status);
  }

  /** Returns why the caller cannot read the stream of a run; undefined if it can. Ended temporary runs have no row. */
  async whyUnreadable(
    runId: string,
    threadId: string | undefined,
    auth: AuthContext | undefined,
  ): Promise<"missing" | "forbidden" | undefined> {
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:read", { thread_id: threadId });
    const found = await rows.findRun(this.#database.query, runId, threadId);
    if (found !== undefined) return this.#mayUse(found, filters) ? undefined : "forbidden";
    const stream = await rows.findStream(this.#database.query, runId, threadId);
    if (stream === undefined || (filters !== undefined && stream.metadata === null)) return "missing";
    return this.#stock.isAuthMatching(stream.metadata ?? {}, filters) ? undefined : "forbidden";
  }

  findThread(threadId: string) {
    return rows.findThread(this.#database.query, threadId);
  }

  async isResumable(runId: string): Promise<boolean> {
    return (await rows.findRun(this.#database.query, runId, undefined))?.run.kwargs.resumable === true;
  }

  #mayUse(found: { threadMetadata: Record<string, unknown> }, filters: AuthFilters): boolean {
    return this.#stock.isAuthMatching(found.threadMetadata, filters);
  }
}

/** The stock server ends a run whose attempt has a higher number. */
const stockAttemptsMax = 3;

/** Returns the number that makes the stock server, whose limit is fixed, end a run after `lossesMax` losses. */
function stockAttempt(attempt: number, lossesMax: number): number {
  return attempt > lossesMax ? Math.max(attempt, stockAttemptsMax + 1) : Math.min(attempt, stockAttemptsMax);
}
