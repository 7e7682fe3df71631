import { parentPort, workerData } from "node:worker_threads";
import { PGlite } from "@electric-sql/pglite";
import { NodeFS } from "@electric-sql/pglite/nodefs";
import { DurableFiles, durableStartParams } from "./durable-files.ts";
import type { FromWorker, ToWorker, WorkerSettings } from "./protocol.ts";
import { SteadyClock } from "./steady-clock.ts";

/**
 * The thread that PostgreSQL runs in. It takes bytes of the PostgreSQL protocol and returns bytes, one message at a time.
 * A statement blocks its thread while it runs, so it must not be the thread that serves requests.
 */
const settings = workerData as WorkerSettings;
const port = parentPort;
if (port === null) throw new Error("engine-worker.ts must run as a worker thread");
// PostgreSQL reads the time from Date.now in this thread.
const clock = new SteadyClock(settings.clock);
Date.now = () => clock.nowMs();
const fsyncs = new Int32Array(settings.fsyncs);

const post = (message: FromWorker) => port.postMessage(message, message.kind === "bytes" ? [message.bytes.buffer] : []);

let connection = 0;

/** Handles one message after the other: an answer takes several turns of the event loop. */
let turn: Promise<void> = Promise.resolve();

try {
  const engine = await open();
  port.on("message", (message: ToWorker) => {
    if (message.kind === "close") turn = turn.then(() => close(engine));
    else turn = turn.then(() => answer(engine, message));
  });
  post({ kind: "ready" });
} catch (error) {
  fail(error);
}

function open(): Promise<PGlite> {
  if (!settings.durable) return PGlite.create({ fs: new NodeFS(settings.directory) });
  return PGlite.create({
    fs: new DurableFiles(settings.directory, () => Atomics.add(fsyncs, 0, 1)),
    startParams: durableStartParams,
  });
}

async function answer(engine: PGlite, message: Extract<ToWorker, { kind: "bytes" }>): Promise<void> {
  try {
    if (message.connection !== connection) {
      if (connection !== 0) await resetSession(engine);
      connection = message.connection;
    }
    post({ kind: "bytes", id: message.id, bytes: await exchange(engine, message.bytes) });
  } catch (error) {
    fail(error);
  }
}

/**
 * Runs one exchange. An SQL error is a normal answer; an exception means that the WebAssembly program is gone. Nothing
 * else runs in between. It uses the stream call because PGlite (0.5) also parses what the other call returns, and keeps
 * every message of it in memory.
 */
async function exchange(engine: PGlite, bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  await engine.execProtocolRawStream(bytes, { syncToFs: false, onRawData: (part) => parts.push(part.slice()) });
  const [first] = parts;
  return (parts.length === 1 && first !== undefined ? first : concatenated(parts)) as Uint8Array<ArrayBuffer>;
}

function concatenated(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}

/** PostgreSQL sees one endless session, so a new connection must not find the transaction or statement names of the last one. */
async function resetSession(engine: PGlite): Promise<void> {
  await exchange(engine, simpleQuery("rollback"));
  await exchange(engine, simpleQuery("discard all"));
}

/** Builds message `Q` of the PostgreSQL protocol: type, length including itself, text, NUL. */
function simpleQuery(text: string): Uint8Array {
  const message = Buffer.alloc(text.length + 6);
  message.write("Q");
  message.writeInt32BE(text.length + 5, 1);
  message.write(text, 5);
  return message;
}

async function close(engine: PGlite): Promise<void> {
  try {
    await engine.close();
    port?.close();
  } catch (error) {
    fail(error);
  }
}

function fail(error: unknown): void {
  post({ kind: "failed", message: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  process.exit(1);
}
