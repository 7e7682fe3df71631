import { closeSync, fdatasyncSync, fsyncSync, openSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";
import { NodeFS } from "@electric-sql/pglite/nodefs";

/**
 * PGlite's file system with an fsync that reaches the disk. Without it a committed row survives a crash of the process
 * but not of the machine: PGlite starts PostgreSQL with fsync off, and its file system has no such operation.
 */
export class DurableFiles extends NodeFS {
  readonly #synced: () => void;

  /** @param synced called after each fsync, so that a test can count them. */
  constructor(directory: string, synced: () => void) {
    super(directory);
    this.#synced = synced;
  }

  override async init(...args: Parameters<NodeFS["init"]>): ReturnType<NodeFS["init"]> {
    const { emscriptenOpts } = await super.init(...args);
    const addFsync = (module: unknown) => {
      const { NODEFS } = module as { NODEFS: HostFiles };
      NODEFS.stream_ops.fsync = (stream) => {
        NODEFS.tryFSOperation(() => sync(NODEFS, stream));
        this.#synced();
        return 0;
      };
    };
    return { emscriptenOpts: { ...emscriptenOpts, preRun: [...(emscriptenOpts.preRun ?? []), addFsync] } };
  }
}

/**
 * Start parameters of an engine on `DurableFiles`. `wal_sync_method=fsync`, because the runtime's fdatasync, PostgreSQL's
 * default, does nothing and reports success.
 */
export const durableStartParams = [
  ...PGlite.defaultStartParams.filter((param) => param !== "-F"),
  "-c",
  "wal_sync_method=fsync",
];

/** The part of emscripten's NODEFS that this file uses. */
interface HostFiles {
  stream_ops: { fsync?: (stream: HostStream) => number };
  /** Maps an error of node:fs to the errno that PostgreSQL understands. */
  tryFSOperation<T>(operation: () => T): T;
  realPath(node: unknown): string;
}

interface HostStream {
  /** File descriptor. Directories have none, so a sync opens them. */
  nfd?: number;
  node: unknown;
}

function sync(files: HostFiles, stream: HostStream): void {
  if (stream.nfd !== undefined) {
    fdatasyncSync(stream.nfd);
    return;
  }
  const directory = openSync(files.realPath(stream.node), "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
