import { open, rename } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The used parts of `FileSystemPersistence` in `dist/storage/persist.mjs` of the open LangGraph.js server (1.5.1). */
interface Persistence {
  filepath: string | null;
  data: unknown;
  flushTimeout: NodeJS.Timeout | undefined;
  /** Writes at once. `flush` of a clean shutdown is this method, too. */
  persist(): Promise<void>;
  /** Called after every access. */
  schedulePersist(): void;
}

interface PersistenceModule {
  FileSystemPersistence: { prototype: Persistence };
  serialize(data: unknown): string;
}

/** As in the server itself: writing is cheapest when no change follows. */
const quietMs = 3_000;

/** Maximum age of an unwritten change. The server alone waits for quiet without a limit: a busy one never wrote for a day. */
const unwrittenMs = 5_000;

/** Each write contains the whole state, so a large state is written less often: at most a twentieth of the time is writing. */
const pausePerWrite = 20;

interface WriteState {
  /** Time of the oldest change that is not in the file. */
  changedAt: number | undefined;
  lastWriteMs: number;
  turn: Promise<void>;
}

/**
 * Changes how the server writes its state: within seconds under any traffic, one write at a time, and atomically. A server
 * with an unknown implementation stays unchanged.
 * @param serverModule file that `@langchain/langgraph-api/server` resolves to
 */
export async function hardenPersistence(serverModule: string): Promise<void> {
  const file = fileURLToPath(new URL("./storage/persist.mjs", pathToFileURL(serverModule)));
  const found: unknown = await import(pathToFileURL(file).href).catch(() => undefined);
  if (!isPersistenceModule(found)) {
    console.warn(
      `warning: pierhead: unknown version of ${path.basename(file)}: state is written as the server does it`,
    );
    return;
  }
  const { serialize, FileSystemPersistence } = found;
  const writeStates = new WeakMap<Persistence, WriteState>();
  const writeStateOf = (persistence: Persistence): WriteState => {
    const state = writeStates.get(persistence) ?? { changedAt: undefined, lastWriteMs: 0, turn: Promise.resolve() };
    writeStates.set(persistence, state);
    return state;
  };

  FileSystemPersistence.prototype.schedulePersist = function () {
    const state = writeStateOf(this);
    const now = performance.now();
    state.changedAt ??= now;
    const latest = state.changedAt + Math.max(unwrittenMs, state.lastWriteMs * pausePerWrite);
    clearTimeout(this.flushTimeout);
    this.flushTimeout = setTimeout(
      () => {
        this.persist().catch((error: unknown) => console.error(`error: pierhead: state was not written: ${error}`));
      },
      Math.max(0, Math.min(now + quietMs, latest) - now),
    );
  };

  FileSystemPersistence.prototype.persist = function () {
    const state = writeStateOf(this);
    clearTimeout(this.flushTimeout);
    const write = async () => {
      if (this.data == null || this.filepath === null) return;
      const begin = performance.now();
      state.changedAt = undefined;
      await replaceFile(this.filepath, serialize(this.data));
      state.lastWriteMs = performance.now() - begin;
    };
    const written = state.turn.then(write);
    state.turn = written.catch(() => {});
    return written;
  };
}

function isPersistenceModule(found: unknown): found is PersistenceModule {
  const { FileSystemPersistence, serialize } = (found ?? {}) as Partial<PersistenceModule>;
  const { persist, schedulePersist } = FileSystemPersistence?.prototype ?? {};
  return [serialize, persist, schedulePersist].every((part) => typeof part === "function");
}

async function replaceFile(file: string, text: string): Promise<void> {
  const draft = `${file}.draft`;
  const handle = await open(draft, "w", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
}
