import { parentPort, workerData } from "node:worker_threads";
import { PGlite } from "@electric-sql/pglite";
import { NodeFS } from "@electric-sql/pglite/nodefs";
import { DurableFiles, durableStartParams } from "./durable-files.ts";
import type { FromWorker, ToWorker, WorkerSettings } from "./protocol.ts";

/**
 * The thread PostgreSQL runs in: takes bytes of its protocol, gives back bytes, one message at a time. A statement blocks
 * this thread for as long as it runs, which is why it is not the one that serves requests.
 */
const settings = workerData as WorkerSettings;
const port = parentPort;
if (port === null) throw new Error("engine-worker runs as a worker thread only");
const fsyncs = new Int32Array(settings.fsyncs);

const say = (message: FromWorker) => port.postMessage(message, message.kind === "bytes" ? [message.bytes.buffer] : []);

let connection = 0;

try {
  const engine = await open();
  port.on("message", (message: ToWorker) => {
    if (message.kind === "close") void close(engine);
    else answer(engine, message);
  });
  say({ kind: "ready" });
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

function answer(engine: PGlite, message: Extract<ToWorker, { kind: "bytes" }>): void {
  try {
    if (message.connection !== connection) {
      if (connection !== 0) resetSession(engine);
      connection = message.connection;
    }
    // An error of SQL is an answer like any other; an exception means that the WebAssembly program is gone.
    const bytes = engine.execProtocolRawSync(message.bytes).slice() as Uint8Array<ArrayBuffer>;
    say({ kind: "bytes", id: message.id, bytes });
  } catch (error) {
    fail(error);
  }
}

/** PostgreSQL sees one session for ever: a new connection must not find the transaction or the names of the last one. */
function resetSession(engine: PGlite): void {
  engine.execProtocolRawSync(simpleQuery("rollback"));
  engine.execProtocolRawSync(simpleQuery("discard all"));
}

/** Message `Q` of the PostgreSQL protocol: type, length with itself, text, NUL. */
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
  say({ kind: "failed", message: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  process.exit(1);
}
