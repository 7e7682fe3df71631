/** Directory of the file engine's state, below its working directory. */
export const stateDirectory = ".langgraph_api";

/** Files of the file engine: assistants, threads and runs; checkpoints; items of the store. */
export const fileNames = [
  ".langgraphjs_ops.json",
  ".langgraphjs_api.checkpointer.json",
  ".langgraphjs_api.store.json",
] as const;

/** A row of the file engine. The server has written it, with the fields of its API. */
// biome-ignore lint/suspicious/noExplicitAny: the files have no schema of their own
export type StoredRow = Record<string, any>;

/** Bytes of the checkpoint and of its metadata as JSON, and the id of the parent. */
export type StoredCheckpoint = [checkpoint: Uint8Array, metadata: Uint8Array, parentId: string | undefined];

export type StoredWrite = [taskId: string, channel: string, value: Uint8Array];

/** The content of the three files. Absent: the file does not exist. */
export interface FileState {
  assistants?: Record<string, StoredRow>;
  assistant_versions?: StoredRow[];
  threads?: Record<string, StoredRow>;
  runs?: Record<string, StoredRow>;
  /** By thread, namespace and id. */
  storage?: Record<string, Record<string, Record<string, StoredCheckpoint>>>;
  /** By the JSON of thread, namespace and checkpoint, then by `<task>,<index>`. */
  writes?: Record<string, Record<string, StoredWrite>>;
  /** By namespace and key. */
  data?: Map<string, Map<string, StoredItem>>;
}

export interface StoredItem {
  namespace: string[];
  key: string;
  value: object;
  createdAt: Date;
  updatedAt: Date;
}
