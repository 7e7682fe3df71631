import path from "node:path";
import { Worker } from "node:worker_threads";
import type { Logger } from "../../../telemetry/log.ts";
import { DatabaseRestarted, DatabaseUnusable } from "../database-errors.ts";
import { Bridge, type Exchange } from "./bridge.ts";
import { lockDirectory } from "./directory-lock.ts";
import { prepareDirectory } from "./prepare-directory.ts";
import type { FromWorker, ToWorker, WorkerSettings } from "./protocol.ts";
import { SteadyClock } from "./steady-clock.ts";

export interface EngineOptions {
  directory: string;
  durable: boolean;
  templateDirectory: string | undefined;
  /** When a statement runs longer, the engine is stopped and reopened: nothing else can cancel a statement. */
  answerTimeoutMs: number;
  logger: Logger;
}

/** An embedded PostgreSQL in a worker thread: one session, no port, no operating system user. */
export interface EmbeddedEngine {
  /** Opens a connection for `pg`. All connections share one session, so open one at a time. */
  connect(): Bridge;
  /** Number of times the worker has forced data to the disk. */
  readonly fsyncs: number;
  /** The clock of the engine. */
  readonly clock: SteadyClock;
  /** Thread id of the worker; it changes when the engine is reopened. */
  readonly threadId: number | undefined;
  /** Ends the worker thread as a crash would. The next connection reopens the database. */
  crash(): Promise<void>;
  /** Shuts PostgreSQL down cleanly and releases the directory. */
  close(): Promise<void>;
}

/** A clean shutdown writes a checkpoint of at most 1 GB of WAL. If it takes longer, the next start runs crash recovery. */
const closeTimeoutMs = 20_000;

/**
 * Opens the database in a directory and creates it if there is none.
 * @throws DatabaseUnusable when another process has it open.
 */
export async function openEmbeddedEngine(options: EngineOptions): Promise<EmbeddedEngine> {
  let engine: WorkerEngine | undefined;
  const onLost = (by: string) => engine?.giveUp(by);
  const lock = await lockDirectory(`${options.directory}.lock`, options.logger, { onLost });
  engine = new WorkerEngine(options, () => lock.release());
  try {
    await prepareDirectory(options.directory, options);
    await engine.start();
  } catch (error) {
    await engine.close();
    throw error;
  }
  return engine;
}

interface Running {
  worker: Worker;
  ready: Promise<void>;
  ended: Promise<void>;
  waiting: Map<number, { resolve(bytes: Uint8Array): void; reject(error: Error): void }>;
}

class WorkerEngine implements EmbeddedEngine {
  readonly #options: EngineOptions;
  readonly #release: () => Promise<void>;
  readonly #fsyncs = new SharedArrayBuffer(4);
  readonly clock = new SteadyClock();
  readonly #bridges = new Set<Bridge>();
  #running: Running | undefined;
  #connections = 0;
  #requests = 0;
  #closing: Promise<void> | undefined;
  #lost: DatabaseUnusable | undefined;

  constructor(options: EngineOptions, release: () => Promise<void>) {
    this.#options = options;
    this.#release = release;
  }

  get fsyncs(): number {
    return new Int32Array(this.#fsyncs)[0] as number;
  }

  get threadId(): number | undefined {
    return this.#running?.worker.threadId;
  }

  async start(): Promise<void> {
    if (this.#closing !== undefined) throw new Error("the embedded database is closed");
    if (this.#lost !== undefined) throw this.#lost;
    this.#running ??= this.#startWorker();
    await this.#running.ready;
  }

  connect(): Bridge {
    this.#connections += 1;
    const connection = this.#connections;
    const bridge = new Bridge(async () => {
      await this.start();
      const running = this.#running as Running;
      return (bytes) => this.#exchange(running, { connection, bytes });
    });
    this.#bridges.add(bridge);
    bridge.once("close", () => this.#bridges.delete(bridge));
    return bridge;
  }

  async crash(): Promise<void> {
    await this.#running?.worker.terminate();
    await this.#running?.ended;
  }

  /** Ends at once, without a clean shutdown, and for good: another process writes in this directory. */
  giveUp(by: string): void {
    this.#lost = new DatabaseUnusable(`the embedded database was taken over by ${by}: restart this server, or stop it`);
    this.#options.logger.error({ by }, "the embedded database was taken over by another process");
    void this.crash();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const running = this.#running;
    if (running !== undefined) {
      running.worker.ref();
      running.worker.postMessage({ kind: "close" } satisfies ToWorker);
      const giveUp = setTimeout(() => void running.worker.terminate(), closeTimeoutMs);
      await running.ended;
      clearTimeout(giveUp);
    }
    await this.#release();
  }

  #startWorker(): Running {
    const { directory, durable } = this.#options;
    const workerData: WorkerSettings = { directory, durable, fsyncs: this.#fsyncs, clock: this.clock.shared };
    // The same extension as this file: .ts when run from the sources, .js when built.
    const file = new URL(`./engine-worker${path.extname(import.meta.filename)}`, import.meta.url);
    const worker = new Worker(file, { workerData, execArgv: [], name: "embedded database" });
    const ready = Promise.withResolvers<void>();
    ready.promise.catch(() => {
      // Callers that wait for `ready` get the error. Without any, the next connection starts a new worker.
    });
    const ended = Promise.withResolvers<void>();
    const running: Running = { worker, ready: ready.promise, ended: ended.promise, waiting: new Map() };
    let cause = "";
    worker.on("message", (message: FromWorker) => {
      if (message.kind === "ready") {
        ready.resolve();
        // An idle worker does not keep the process alive; #exchange refs it while a statement runs.
        if (running.waiting.size === 0) worker.unref();
      } else if (message.kind === "failed") cause = message.message;
      else settle(running, message);
    });
    worker.on("error", (error) => {
      cause = error instanceof Error ? error.message : String(error);
    });
    worker.on("exit", () => {
      this.#ended(running, cause);
      ready.reject(new DatabaseRestarted(`the embedded database did not open${cause === "" ? "" : `: ${cause}`}`));
      ended.resolve();
    });
    return running;
  }

  /** Handles the end of the worker: rejects the requests that wait for it. The next connection starts a new one. */
  #ended(running: Running, cause: string): void {
    if (this.#running === running) this.#running = undefined;
    if (this.#closing === undefined && this.#lost === undefined) {
      const fields = { error: cause, statements: running.waiting.size };
      this.#options.logger.error(fields, "embedded database ended and will be reopened");
    }
    const error = reopened();
    for (const { reject } of running.waiting.values()) reject(error);
    running.waiting.clear();
    for (const bridge of this.#bridges) bridge.destroy(error);
  }

  #exchange(running: Running, message: { connection: number; bytes: Uint8Array<ArrayBuffer> }): ReturnType<Exchange> {
    if (this.#running !== running) return Promise.reject(reopened());
    this.#requests += 1;
    const id = this.#requests;
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    const giveUp = setTimeout(() => void this.crash(), this.#options.answerTimeoutMs);
    running.waiting.set(id, {
      resolve(bytes) {
        clearTimeout(giveUp);
        resolve(bytes);
      },
      reject(error) {
        clearTimeout(giveUp);
        reject(error);
      },
    });
    running.worker.ref();
    running.worker.postMessage({ kind: "bytes", id, ...message } satisfies ToWorker, [message.bytes.buffer]);
    return promise;
  }
}

const reopened = () => new DatabaseRestarted("the embedded database was reopened; try again");

function settle(running: Running, answer: { id: number; bytes: Uint8Array }): void {
  running.waiting.get(answer.id)?.resolve(answer.bytes);
  running.waiting.delete(answer.id);
  if (running.waiting.size === 0) running.worker.unref();
}
