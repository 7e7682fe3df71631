import type { RunsStreamRepo } from "@langchain/langgraph-api/storage";
import type { AuthContext, Stock } from "../stock.ts";
import type { Database } from "../store/database.ts";
import { isEnded, lastOutput, lastSeq, read } from "../store/events.ts";
import type { Executions } from "./executions.ts";
import type { Runs } from "./runs.ts";
import type { WakeUps } from "./wake-ups.ts";

/** Signals wake the readers. They look at the database once in a while, in case one was lost. */
const recheckMs = 15_000;

type JoinOptions = Parameters<RunsStreamRepo["join"]>[2];

/** The event streams of runs. Any replica can join them, from any event on. */
export class Streams implements RunsStreamRepo {
  readonly #database: Database;
  readonly #stock: Stock;
  readonly #executions: Executions;
  readonly #wakeUps: WakeUps;
  readonly #runs: Runs;

  constructor(database: Database, stock: Stock, executions: Executions, wakeUps: WakeUps, runs: Runs) {
    this.#database = database;
    this.#stock = stock;
    this.#executions = executions;
    this.#wakeUps = wakeUps;
    this.#runs = runs;
  }

  async publish(payload: Parameters<RunsStreamRepo["publish"]>[0] & { normalized?: boolean }): Promise<void> {
    const data = this.#stock.serialiseAsDict(payload.data) ?? "null";
    const event = { event: payload.event, data, normalized: payload.normalized ?? null };
    const execution = this.#executions.find(payload.runId);
    if (payload.event === "values") execution?.showedValues(payload.data);
    await execution?.publish(event);
  }

  async *join(
    runId: string,
    threadId: string | undefined,
    options: JoinOptions,
    auth: AuthContext | undefined,
  ): AsyncGenerator<{ id: string; event: string; data: unknown; normalized?: boolean }> {
    const { signal } = options;
    const missing = await this.#runs.whyUnreadable(runId, threadId, auth);
    if (missing !== undefined) {
      if (missing === "forbidden" || options.ignore404 !== true)
        yield { id: "0", event: "error", data: { error: "Error", message: "404: Run not found" } };
      return;
    }
    let after = await this.#startOf(runId, options.lastEventId);
    while (!signal?.aborted) {
      const next = this.#wakeUps.next(runId, recheckMs, signal);
      try {
        const { events, ended } = await read(this.#database.query, runId, after);
        for (const { seq, event, data, normalized } of events) {
          after = seq;
          yield { id: String(seq), event, data, ...(normalized !== null && { normalized }) };
        }
        if (ended) return;
        if (events.length === 0) await next.woken;
      } finally {
        next.cancel();
      }
    }
    if (options.cancelOnDisconnect && threadId !== undefined)
      await this.#runs.cancel(threadId, [runId], { action: "interrupt" }, auth);
  }

  /** Waits for the end of a run. @returns its last values, or its error. */
  async lastOutputOf(runId: string): Promise<unknown> {
    while (true) {
      const next = this.#wakeUps.next(runId, recheckMs);
      try {
        if (await isEnded(this.#database.query, runId)) break;
        await next.woken;
      } finally {
        next.cancel();
      }
    }
    const last = await lastOutput(this.#database.query, runId);
    return last?.event === "error" ? { __error__: this.#errorOf(last.data) } : (last?.data ?? null);
  }

  #errorOf(data: unknown): unknown {
    return this.#stock.serializeError(data);
  }

  /** A resumable stream without an event id begins with the next event, as in the file engine; all others from the start. */
  async #startOf(runId: string, lastEventId: string | undefined): Promise<number> {
    if (lastEventId !== undefined) return /^-?\d{1,9}$/.test(lastEventId) ? Number(lastEventId) : -1;
    return (await this.#runs.isResumable(runId)) ? lastSeq(this.#database.query, runId) : -1;
  }
}
