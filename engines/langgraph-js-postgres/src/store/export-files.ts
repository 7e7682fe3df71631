import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Stock } from "../stock.ts";
import type { Database, Query } from "./database.ts";
import { type FileState, fileNames, type StoredCheckpoint, type StoredRow, stateDirectory } from "./file-state.ts";
import type { Counts } from "./import-files.ts";
import { namespaceOf } from "./items.ts";

/**
 * Writes the state of the database as the files of the file engine, as it is at one moment. The database stays as it is.
 * @param directory working directory for the file engine. It must not have state yet.
 * @returns how many rows of each kind the files have.
 */
export async function exportFiles(database: Database, stock: Stock, directory: string): Promise<Counts> {
  const state = await database.transaction(async (query) => {
    await query("set transaction isolation level repeatable read read only");
    await query("set local statement_timeout = 0");
    return readDatabase(query, stock);
  });
  const { assistants, assistant_versions, threads, runs, storage, writes, data } = state;
  const contents = [
    { runs, threads, assistants, assistant_versions, retry_counter: {} },
    { storage, writes },
    { data, vectors: new Map() },
  ];
  await mkdir(path.join(directory, stateDirectory), { recursive: true, mode: 0o700 });
  for (const [index, name] of fileNames.entries()) {
    const text = stock.serialize(contents[index]);
    await writeFile(path.join(directory, stateDirectory, name), text, { flag: "wx", mode: 0o600 });
  }
  const threadsOfStorage = Object.values(storage).flatMap((namespaces) => Object.values(namespaces));
  const sum = (all: object[]) => all.reduce((count, one) => count + Object.keys(one).length, 0);
  return {
    assistants: Object.keys(assistants).length,
    threads: Object.keys(threads).length,
    runs: Object.keys(runs).length,
    checkpoints: sum(threadsOfStorage),
    writes: sum(Object.values(writes)),
    items: [...data.values()].reduce((count, items) => count + items.size, 0),
  };
}

async function readDatabase(query: Query, stock: Stock): Promise<Required<FileState>> {
  const byId = async (table: string, columns: string) => {
    const rows = await query<StoredRow>(`select ${columns} from ${table} order by created_at, 1`);
    return Object.fromEntries(rows.map((row) => [Object.values(row)[0] as string, row]));
  };
  const assistant = "assistant_id, graph_id, name, description, version, config, context, metadata, created_at";
  return {
    assistants: await byId("@assistants", `${assistant}, updated_at`),
    assistant_versions: await query<StoredRow>(
      `select ${assistant} from @assistant_versions order by created_at, version`,
    ),
    threads: await byId(
      "@threads",
      `thread_id, created_at, updated_at, metadata, config, status, "values", interrupts`,
    ),
    runs: await byId(
      "@runs",
      "run_id, thread_id, assistant_id, metadata, status, kwargs, multitask_strategy, created_at, updated_at",
    ),
    storage: await readCheckpoints(query, stock),
    writes: await readWrites(query),
    data: await readItems(query),
  };
}

async function readCheckpoints(query: Query, stock: Stock): Promise<Required<FileState>["storage"]> {
  const { serde } = stock.checkpointer;
  const storage: Required<FileState>["storage"] = {};
  const threads = await query<{ thread_id: string }>("select distinct thread_id from @checkpoints order by 1");
  for (const { thread_id } of threads) {
    const blobs = await query<{ name: string; type: string; blob: Buffer | null }>(
      `select json_build_array(checkpoint_ns, channel, version)::text as name, type, blob
       from @checkpoint_blobs where thread_id = $1`,
      [thread_id],
    );
    const blobOf = new Map(blobs.map((blob) => [JSON.stringify(JSON.parse(blob.name)), blob]));
    const rows = await query<StoredRow>(
      `select checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata
       from @checkpoints where thread_id = $1 order by checkpoint_id`,
      [thread_id],
    );
    const namespaces: Record<string, Record<string, StoredCheckpoint>> = {};
    for (const { checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata } of rows) {
      const channel_values: Record<string, unknown> = {};
      for (const [channel, version] of Object.entries(checkpoint.channel_versions ?? {})) {
        const found = blobOf.get(JSON.stringify([checkpoint_ns, channel, version]));
        if (found === undefined || found.type === "empty") continue;
        channel_values[channel] = await serde.loadsTyped(found.type, found.blob ?? Buffer.alloc(0));
      }
      const versions_seen = Object.fromEntries(
        Object.entries(checkpoint.versions_seen ?? {}).map(([node, seen]) => [node, counted(seen as object)]),
      );
      const channel_versions = counted(checkpoint.channel_versions ?? {});
      const [, bytes] = await serde.dumpsTyped({ ...checkpoint, channel_values, channel_versions, versions_seen });
      namespaces[checkpoint_ns] ??= {};
      namespaces[checkpoint_ns][checkpoint_id] = [
        new Uint8Array(bytes),
        new TextEncoder().encode(JSON.stringify(metadata)),
        parent_checkpoint_id ?? undefined,
      ];
    }
    storage[thread_id] = namespaces;
  }
  return storage;
}

/** The file engine stores the values with each checkpoint, so that the count of a version is enough. */
const counted = (versions: object) =>
  Object.fromEntries(
    Object.entries(versions).map(([channel, version]) => [channel, Number.parseInt(String(version), 10)]),
  );

async function readWrites(query: Query): Promise<Required<FileState>["writes"]> {
  const rows = await query<StoredRow>(
    `select thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, blob
     from @checkpoint_writes order by thread_id, checkpoint_id, task_id, idx`,
  );
  const writes: Required<FileState>["writes"] = {};
  for (const { thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, blob } of rows) {
    const outer = JSON.stringify([thread_id, checkpoint_ns, checkpoint_id]);
    writes[outer] ??= {};
    writes[outer][`${task_id},${idx}`] = [task_id, channel, new Uint8Array(blob)];
  }
  return writes;
}

async function readItems(query: Query): Promise<Required<FileState>["data"]> {
  const rows = await query<StoredRow>(
    "select path, key, value, created_at, updated_at from @items order by created_at",
  );
  const data: Required<FileState>["data"] = new Map();
  for (const { path: label, key, value, created_at: createdAt, updated_at: updatedAt } of rows) {
    const namespace = namespaceOf(label);
    const name = namespace.join(":");
    const items = data.get(name) ?? new Map();
    data.set(name, items.set(JSON.parse(key), { namespace, key: JSON.parse(key), value, createdAt, updatedAt }));
  }
  return data;
}
