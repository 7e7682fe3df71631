import type { CheckpointPayload, Run, RunStatus } from "@langchain/langgraph-api/storage";
import type { Settings } from "../settings.ts";
import type { Stock } from "../stock.ts";
import type { Database } from "../store/database.ts";
import { append, type NewEvent } from "../store/events.ts";
import { type CancelAction, type Claim, finish, handOver, renew } from "../store/queue.ts";
import type { Signals } from "../store/signals.ts";
import type { EndedRuns } from "../store/threads.ts";

/** How often a renewal tries a run again that is locked, and the pause between. Events lock their run while they are written. */
const renewalAttempts = 5;
const renewalPauseMs = 100;

/** Events that wait for the database before the worker has to wait as well. */
const maxBufferedEvents = 1_000;

/** Why an execution is stopped. The stock server knows `interrupt`; all others look like an error to it. */
type StopReason = CancelAction | "lost" | "handover";

/** A run that this replica executes. */
export class Execution {
  readonly run: Run;
  readonly attempt: number;
  readonly lease: string;
  readonly startedAt = new Date();
  readonly abort = new AbortController();
  /** The time of `performance.now()` until which no other replica can have claimed the run. */
  validUntil: number;
  stopped: StopReason | undefined;
  /** The status that the worker reported; undefined while it executes. */
  status: RunStatus | undefined;
  result: { checkpoint?: CheckpointPayload; exception?: Error } = {};
  /** The last values in the stream of a run without a thread. It has no checkpoint. */
  shown: unknown;
  readonly #database: Database;
  #nextSeq: number;
  #buffer: NewEvent[] = [];
  #flushing: Promise<void> | undefined;
  /** The attempt to write the first events of the buffer. */
  #writing: Promise<unknown> | undefined;

  constructor(database: Database, claim: Claim, validUntil: number) {
    this.#database = database;
    this.run = claim.run;
    this.attempt = claim.attempt;
    this.lease = claim.lease;
    this.#nextSeq = claim.nextSeq;
    this.validUntil = validUntil;
  }

  /** Whether this replica may still write for the run. A process that was frozen finds out here that its time is over. */
  get isHeld(): boolean {
    return this.stopped !== "lost" && this.stopped !== "handover" && performance.now() < this.validUntil;
  }

  stop(reason: StopReason): void {
    if (this.stopped === "lost" || this.stopped === reason) return;
    this.stopped = reason;
    this.abort.abort(reason === "interrupt" ? reason : new Error(`the execution was stopped: ${reason}`));
  }

  showedValues(values: unknown): void {
    if (this.run.kwargs.temporary === true) this.shown = values;
  }

  /** Adds an event to the stream. It is written soon; the worker waits only if the database falls behind. */
  async publish(event: Omit<NewEvent, "seq">): Promise<void> {
    if (this.stopped !== undefined && this.stopped !== "interrupt") return;
    this.#buffer.push({ ...event, seq: this.#nextSeq++ });
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
    });
    if (this.#buffer.length > maxBufferedEvents) await this.#flushing;
  }

  /** Waits until the events that were published so far are written, or the lease is lost. */
  async flushed(): Promise<void> {
    const end = this.#nextSeq;
    while (this.#flushing !== undefined && (this.#buffer[0]?.seq ?? end) < end) await this.#writing;
  }

  async #flush(): Promise<void> {
    // Events of the same turn of the event loop go out in one statement.
    this.#writing = new Promise(setImmediate);
    await this.#writing;
    while (this.#buffer.length > 0 && this.isHeld) {
      this.#writing = this.#write(this.#buffer.slice(0, maxBufferedEvents));
      await this.#writing;
    }
    if (!this.isHeld) this.#buffer = [];
  }

  /** Writes the first events of the buffer, or waits a moment if it cannot. */
  async #write(batch: NewEvent[]): Promise<void> {
    try {
      if (!(await append(this.#database, this.run.run_id, this.lease, batch))) this.stop("lost");
      this.#buffer.splice(0, batch.length);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

/** The runs that this replica executes: renews their leases, stops them, and writes their ends. */
export class Executions implements EndedRuns {
  readonly #database: Database;
  readonly #signals: Signals;
  readonly #stock: Stock;
  readonly #settings: Settings;
  readonly #byRun = new Map<string, Execution>();
  readonly #timers: NodeJS.Timeout[] = [];
  #renewing = false;

  constructor(database: Database, signals: Signals, stock: Stock, settings: Settings) {
    this.#database = database;
    this.#signals = signals;
    this.#stock = stock;
    this.#settings = settings;
  }

  start(): void {
    this.#signals.on("cancel", (runId) => {
      if (this.#byRun.has(runId)) void this.#renew();
    });
    this.#timers.push(setInterval(() => void this.#renew(), this.#settings.leaseMs / 5));
    this.#timers.push(setInterval(() => this.#stopExpired(), 250));
  }

  get size(): number {
    return this.#byRun.size;
  }

  get threads(): string[] {
    return [...this.#byRun.values()].map(({ run }) => run.thread_id);
  }

  /**
   * Begins to execute a claimed run.
   * @param claimedAt `performance.now()` before the claim was sent. The lease counts from a later time of the database, and
   * this replica gives up when seven tenths have passed, before any other one may claim the run.
   */
  begin(claim: Claim, claimedAt: number): Execution {
    const execution = new Execution(this.#database, claim, claimedAt + this.#validMs);
    this.#byRun.set(claim.run.run_id, execution);
    return execution;
  }

  find(runId: string): Execution | undefined {
    return this.#byRun.get(runId);
  }

  /**
   * Returns the lease of a run. @throws when this replica does not execute it or must no longer write for it. An execution that
   * was refused once stays lost, because its graph has failed by then.
   */
  leaseOf(runId: string): string {
    const execution = this.#byRun.get(runId);
    if (execution?.isHeld === true) return execution.lease;
    this.lose(runId);
    throw new Error(`this replica has lost run ${runId}`);
  }

  /** Waits until the events that a run has sent so far are written, or its lease is lost. */
  async eventsWritten(runId: string): Promise<void> {
    // The worker reads in this turn what the graph has sent.
    await new Promise(setImmediate);
    await this.#byRun.get(runId)?.flushed();
  }

  lose(runId: string): void {
    const execution = this.#byRun.get(runId);
    if (execution === undefined || execution.stopped === "lost" || execution.stopped === "handover") return;
    this.#stock.logger.warn("run lost: its lease was not renewed in time", { run_id: runId });
    execution.stop("lost");
  }

  takeResult(threadId: string, result: { checkpoint?: CheckpointPayload; exception?: Error }): boolean {
    const execution = [...this.#byRun.values()].find(({ run }) => run.thread_id === threadId);
    if (execution === undefined) return false;
    execution.result = result;
    return true;
  }

  /** Whether the worker has ended a temporary run on the thread, so that the thread goes with it. */
  endsTemporary(threadId: string): boolean {
    const execution = [...this.#byRun.values()].find(({ run }) => run.thread_id === threadId);
    return execution?.status !== undefined && execution.run.kwargs.temporary === true;
  }

  /** Writes the end of an execution after its worker is done with it. */
  async settle(execution: Execution): Promise<void> {
    try {
      await execution.flushed();
      if (execution.stopped === "handover") await handOver(this.#database, [execution.lease]);
      else await this.#finish(execution);
    } catch (error) {
      // The lease runs out, and another replica takes the run.
      this.#stock.logger.error("run end not recorded", { run_id: execution.run.run_id, error });
    } finally {
      this.#byRun.delete(execution.run.run_id);
    }
  }

  /** Hands over all runs: waits for them to end, stops the others, and gives those back to the queue. */
  async handOver(waitMs: number): Promise<void> {
    await this.#idle(waitMs);
    for (const execution of this.#byRun.values()) execution.stop("handover");
    await this.#idle(2_000);
    // Their code does not listen to the abort signal. Its later writes are refused.
    const leases = [...this.#byRun.values()].map(({ lease }) => lease);
    if (leases.length > 0) await handOver(this.#database, leases);
    for (const timer of this.#timers) clearInterval(timer);
  }

  async #idle(waitMs: number): Promise<void> {
    const until = performance.now() + waitMs;
    while (this.#byRun.size > 0 && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 50));
  }

  get #validMs(): number {
    return this.#settings.leaseMs * 0.7;
  }

  async #finish(execution: Execution): Promise<void> {
    const { run, lease, status = "error", result, startedAt } = execution;
    const webhook = run.kwargs.webhook;
    const endedAt = new Date();
    const values = result.checkpoint?.values;
    const error = result.exception && { error: this.#stock.serializeError(result.exception).message };
    const payload = { ...run, status, run_started_at: startedAt, run_ended_at: endedAt, values, ...error };
    const outcome = {
      runId: run.run_id,
      threadId: run.thread_id,
      input: run.kwargs.input,
      values: values ?? execution.shown,
      lease,
      status,
      temporary: run.kwargs.temporary === true,
      ...result,
      ...(typeof webhook === "string" && { webhook: { url: webhook, payload } }),
    };
    while (execution.isHeld) {
      try {
        if (!(await finish(this.#database, this.#stock, outcome))) execution.stop("lost");
        return;
      } catch (failure) {
        this.#stock.logger.warn("run end retried", { run_id: run.run_id, error: failure });
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    }
  }

  async #renew(): Promise<void> {
    if (this.#renewing || this.#byRun.size === 0) return;
    this.#renewing = true;
    let executions = [...this.#byRun.values()];
    try {
      for (let attempt = 1; executions.length > 0 && attempt <= renewalAttempts; attempt += 1) {
        if (attempt > 1) await new Promise((resolve) => setTimeout(resolve, renewalPauseMs));
        executions = await this.#renewOnce(executions);
      }
    } catch (error) {
      this.#stock.logger.warn("leases not renewed", { runs: executions.length, error });
    } finally {
      this.#renewing = false;
    }
  }

  /** @returns the executions whose runs are locked. */
  async #renewOnce(executions: Execution[]): Promise<Execution[]> {
    const sentAt = performance.now();
    const leases = executions.map(({ lease }) => lease);
    const rows = await renew(this.#signals.query, leases, this.#settings.leaseMs);
    const held = new Map(rows.map((row) => [row.lease, row]));
    return executions.filter((execution) => {
      const row = held.get(execution.lease);
      if (row === undefined) {
        if (this.#byRun.get(execution.run.run_id) === execution && execution.stopped !== "handover")
          execution.stop("lost");
        return false;
      }
      if (row.renewed) execution.validUntil = sentAt + this.#validMs;
      if (row.cancel_action !== null) execution.stop(row.cancel_action);
      return !row.renewed;
    });
  }

  /** Runs on a timer of its own, so that a renewal that hangs does not keep executions alive. */
  #stopExpired(): void {
    for (const execution of this.#byRun.values()) {
      if (performance.now() >= execution.validUntil) this.lose(execution.run.run_id);
    }
  }
}
