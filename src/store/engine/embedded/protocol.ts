/** The messages between the engine and its worker thread. */
export interface WorkerSettings {
  directory: string;
  durable: boolean;
  /** A shared 32-bit counter of fsyncs. */
  fsyncs: SharedArrayBuffer;
  /** The shared memory of a SteadyClock. */
  clock: SharedArrayBuffer;
}

export type ToWorker =
  /** Bytes of the PostgreSQL protocol; a new connection number means a new session. */
  { kind: "bytes"; id: number; connection: number; bytes: Uint8Array<ArrayBuffer> } | { kind: "close" };

export type FromWorker =
  | { kind: "ready" }
  | { kind: "bytes"; id: number; bytes: Uint8Array<ArrayBuffer> }
  /** The worker ends after this message: its memory can no longer be trusted. */
  | { kind: "failed"; message: string };
