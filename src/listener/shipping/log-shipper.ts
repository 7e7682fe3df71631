import { type Clock, jitteredBackoffMs } from "../../base/clock.ts";
import { withDeadline } from "../../base/deadline.ts";
import { CallRefused, type ListenerSession, StaleEpoch } from "../../client/listener-client.ts";
import type { ReplicaLogs } from "../../compute/compute.ts";
import type { ReplicaLogLine } from "../../contract/listeners/assignment.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import type { FailedRequest } from "../../gateway/route.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { type ContinuedLevels, continueLevels } from "./continued-levels.ts";
import { FailedRequestLines } from "./failed-requests.ts";
import { type LineBudget, newLineBudget, withinBudget } from "./log-budget.ts";
import type { LogCursors } from "./log-cursors.ts";

/** The replica that lines belong to. */
export interface LogSubject {
  replicaId: string;
  deploymentId: string;
  revisionId: string;
}

interface Source extends LogSubject {
  cursor: string | null;
  budget: LineBudget;
  levels: ContinuedLevels;
  /** Lines that were read and not yet accepted by the control plane. */
  unsent: number;
  reading: Promise<boolean>;
}

/** Interval of reading. A line waits at most this long for others to share its batch. */
const roundMs = 100;

/** Limit per replica and round, 2.5 MB/s each. Replicas take turns, so a flood delays others only by milliseconds. */
const readBytesMax = 256 * 1024;

/** A quiet replica is read at most this often, and all quiet ones together 100 times a second. */
const quietMs = { min: 200, max: 10_000, perReplica: 10 };

/** Limits of unsent lines, at which reading stops. The driver's files hold the rest until the control plane accepts lines. */
const unsentLinesMax = 10_000;
const unsentBytesMax = 16 * 1024 * 1024;

/** A replica that exits is still read to its end, up to this multiple of the limit. */
const unsentAtExitFactor = 2;

/**
 * Lines per call. The protocol allows 1,000, but the server reads, checks and writes the lines of a call without a break, and 1,000
 * lines would block its thread for longer than any other work.
 */
const batchLinesMax = 200;

/** The protocol's limits per call. */
const batchBytesMax = 1024 * 1024;
const messageLengthMax = 65_536;

/** Reads at the end of a replica. 40 reads are 10 MiB. */
const finalReadsMax = 40;

const sendTimeoutMs = 30_000;
const retryBounds = { firstMs: 1_000, maxMs: 30_000 };

/** Ships the logs of replicas to the control plane: in order per replica, fairly between replicas, without duplicates. */
export class LogShipper {
  readonly #logs: ReplicaLogs;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #cursors: LogCursors;
  readonly #onStale: (error: StaleEpoch) => void;
  readonly #sources = new Map<string, Source>();
  /** Replicas whose last read returned lines, and the others, each in the order of their turn. */
  readonly #active = new Set<Source>();
  readonly #quiet = new Set<Source>();
  readonly #failedRequests = new FailedRequestLines();
  #unsentBytes = 0;
  /** `source`: null for lines that were not read from a replica, so that no position is stored when they have been sent. */
  #unsent: { line: ReplicaLogLine; source: Source | null }[] = [];
  #session: ListenerSession | null = null;
  #signal = new AbortController();
  #batchLines = batchLinesMax;
  #failures = 0;
  #isSending = false;
  #isBackingOff = false;
  #isClosed = false;
  #quietCredit = 0;
  #cancelRound = () => {};
  #cancelRetry = () => {};

  constructor(options: {
    logs: ReplicaLogs;
    clock: Clock;
    logger: Logger;
    cursors: LogCursors;
    onStale: (error: StaleEpoch) => void;
  }) {
    this.#logs = options.logs;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#cursors = options.cursors;
    this.#onStale = options.onStale;
    this.#nextRound();
  }

  follow(session: ListenerSession | null): void {
    this.#session = session;
    this.#failures = 0;
    this.#cancelRetry();
    this.#isBackingOff = false;
    this.#signal.abort();
    this.#signal = new AbortController();
    void this.#send();
  }

  /** Begins to read a replica's logs at its stored cursor. Does nothing if the replica is tracked already. */
  track({ replicaId, deploymentId, revisionId }: LogSubject): void {
    if (this.#sources.has(replicaId)) return;
    const cursor = this.#cursors.get(replicaId);
    const budget = newLineBudget(this.#clock.now());
    const reading = Promise.resolve(false);
    const source: Source = { replicaId, deploymentId, revisionId, cursor, budget, levels: {}, unsent: 0, reading };
    this.#sources.set(replicaId, source);
    this.#active.add(source);
  }

  /** Adds a line about a request that failed, unless too much is unsent or the deployment has had too many of them. */
  addFailedRequest(failed: FailedRequest): void {
    const now = this.#clock.now();
    const said = this.#isFull(1) ? null : this.#failedRequests.lineOf(failed, now);
    if (said === null) return;
    const { subject, key, message } = said;
    const line = { key, timestamp: new Date(now), stream: "stderr", level: "ERROR", message } as const;
    this.#add(subject, line, null);
  }

  #add(subject: LogSubject, line: ReadLine, source: Source | null): void {
    this.#unsent.push({ line: wireLine(subject, line), source });
    this.#unsentBytes += sizeOf(line);
  }

  /** Reads the remaining logs of a replica before its removal. */
  async finish(replicaId: string): Promise<void> {
    const source = this.#sources.get(replicaId);
    if (source === undefined) return;
    for (let reads = 0; reads < finalReadsMax && !this.#isFull(unsentAtExitFactor); reads++) {
      if (!(await this.#read(source))) break;
    }
    void this.#send();
  }

  /** Stops reading a replica that is gone. Lines that were read are still sent. */
  forget(replicaId: string): void {
    const source = this.#sources.get(replicaId);
    if (source === undefined) return;
    this.#sources.delete(replicaId);
    this.#active.delete(source);
    this.#quiet.delete(source);
    this.#cursors.delete(replicaId);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelRound();
    this.#cancelRetry();
    this.#signal.abort();
  }

  #nextRound(): void {
    this.#cancelRound = this.#clock.setTimeout(() => void this.#round(), roundMs);
  }

  async #round(): Promise<void> {
    for (const source of this.#sourcesOfRound()) {
      if (this.#isClosed || this.#isFull(1)) break;
      // The replica was forgotten since the round began.
      if (!this.#sources.has(source.replicaId)) continue;
      const hasMore = await this.#read(source);
      if (!this.#sources.has(source.replicaId)) continue;
      // Move to the back of the queue: replicas that this round did not reach come first in the next one.
      this.#active.delete(source);
      this.#quiet.delete(source);
      (hasMore ? this.#active : this.#quiet).add(source);
    }
    void this.#send();
    if (!this.#isClosed) this.#nextRound();
  }

  #isFull(factor: number): boolean {
    return this.#unsent.length >= unsentLinesMax * factor || this.#unsentBytes >= unsentBytesMax * factor;
  }

  #sourcesOfRound(): Source[] {
    const { min, max, perReplica } = quietMs;
    const intervalMs = Math.min(max, Math.max(min, this.#quiet.size * perReplica));
    this.#quietCredit = Math.min(this.#quiet.size, this.#quietCredit + (this.#quiet.size * roundMs) / intervalMs);
    const turns = Math.floor(this.#quietCredit);
    this.#quietCredit -= turns;
    return [...this.#active, ...[...this.#quiet].slice(0, turns)];
  }

  /** Returns whether there were lines. Reads of one replica run one after the other. */
  #read(source: Source): Promise<boolean> {
    source.reading = source.reading.then(() => this.#readNext(source));
    return source.reading;
  }

  async #readNext(source: Source): Promise<boolean> {
    try {
      const chunk = await this.#logs.readLogs(source.replicaId, source.cursor, readBytesMax);
      source.cursor = chunk.cursor;
      const lines = withinBudget(source.budget, continueLevels(source.levels, chunk.lines), this.#clock.now());
      for (const line of lines) this.#add(source, line, source);
      source.unsent += lines.length;
      if (source.unsent === 0 && this.#sources.has(source.replicaId)) {
        this.#cursors.set(source.replicaId, chunk.cursor);
      }
      return chunk.lines.length > 0;
    } catch (error) {
      // The replica may just have been removed. If not, it is read again in its turn.
      this.#logger.debug(
        { replica_id: source.replicaId, error: describeError(error) },
        "replica logs could not be read",
      );
      return false;
    }
  }

  async #send(): Promise<void> {
    while (this.#canSend() && this.#session !== null) {
      const { signal } = this.#signal;
      const session = this.#session;
      const batch = this.#nextBatch();
      const lines = batch.map(({ line }) => line);
      const options = { clock: this.#clock, timeoutMs: sendTimeoutMs, signal };
      this.#isSending = true;
      try {
        await withDeadline(options, (ending) => session.sendLogs({ lines }, ending));
        this.#recordSent(batch.length);
        this.#failures = 0;
        this.#batchLines = batchLinesMax;
      } catch (error) {
        this.#isSending = false;
        if (!signal.aborted) this.#handleFailure(error, batch.length);
        return;
      }
      this.#isSending = false;
    }
  }

  #canSend(): boolean {
    return this.#unsent.length > 0 && !this.#isSending && !this.#isBackingOff && !this.#isClosed;
  }

  #nextBatch() {
    let bytes = 0;
    const end = this.#unsent.findIndex(({ line }, index) => {
      bytes += sizeOf(line);
      return index > 0 && (index >= this.#batchLines || bytes > batchBytesMax);
    });
    return this.#unsent.slice(0, end < 0 ? this.#batchLines : end);
  }

  #recordSent(count: number): void {
    for (const { line, source } of this.#unsent.splice(0, count)) {
      this.#unsentBytes -= sizeOf(line);
      if (source === null) continue;
      source.unsent -= 1;
      const isCaughtUp = source.unsent === 0 && source.cursor !== null && this.#sources.has(source.replicaId);
      if (isCaughtUp) this.#cursors.set(source.replicaId, source.cursor as string);
    }
  }

  #handleFailure(error: unknown, count: number): void {
    if (error instanceof StaleEpoch) {
      this.#onStale(error);
      return;
    }
    const status = error instanceof CallRefused ? error.status : null;
    if (status === 400 || status === 413 || status === 422) {
      // Halve the batch to find the one line that is refused, so that it cannot block the others.
      if (count === 1) this.#recordSent(1);
      this.#batchLines = count === 1 ? batchLinesMax : Math.ceil(count / 2);
      this.#logger.warn({ status, lines: count, error: describeError(error) }, "log lines refused");
    } else {
      this.#failures += 1;
      if (this.#failures === 1) this.#logger.warn({ status, error: describeError(error) }, "log lines not accepted");
    }
    const delayMs = this.#failures === 0 ? 0 : jitteredBackoffMs(this.#clock, this.#failures, retryBounds);
    this.#isBackingOff = true;
    this.#cancelRetry = this.#clock.setTimeout(() => {
      this.#isBackingOff = false;
      void this.#send();
    }, delayMs);
  }
}

/** Returns the approximate size of a line in a request. Ids, timestamp and names take about 300 bytes. Most text is ASCII. */
const sizeOf = ({ message }: { message: string }) => Math.min(message.length, messageLengthMax) + 300;

type ReadLine = Awaited<ReturnType<ReplicaLogs["readLogs"]>>["lines"][number];

function wireLine({ replicaId, deploymentId, revisionId }: LogSubject, line: ReadLine): ReplicaLogLine {
  return {
    deployment_id: deploymentId,
    revision_id: revisionId,
    replica_id: replicaId,
    key: line.key,
    timestamp: line.timestamp.toISOString(),
    stream: line.stream,
    level: line.level,
    message: sanitizeText(line.message.slice(0, messageLengthMax)),
  };
}
