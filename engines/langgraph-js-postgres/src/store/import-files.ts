import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Checkpoint } from "@langchain/langgraph-checkpoint";
import type { Stock } from "../stock.ts";
import type { Database, Query } from "./database.ts";
import { deleteStateOfThreads } from "./deletions.ts";
import {
  type FileState,
  fileNames,
  type StoredCheckpoint,
  type StoredItem,
  type StoredRow,
  type StoredWrite,
  stateDirectory,
} from "./file-state.ts";
import { pathOf } from "./items.ts";
import { exact, plainText, searchable } from "./json.ts";

/** How many rows of each kind the files have, or the database got from them. */
export type Counts = Record<"assistants" | "threads" | "runs" | "checkpoints" | "writes" | "items", number>;

/** `kept`: threads in which both the database and the files went on, so that the database keeps its own. */
export type Copied = Counts & { kept: number };

/** How often a replica asks whether the one that copies has finished. */
const turnIntervalMs = 250;

/**
 * Copies the state of the file engine into the database, once for each content of the files. A thread is copied whole or not at
 * all: if the database has it and the files went on, it is copied again, unless the database went on, too. The files stay as they
 * are. No other server may use them meanwhile.
 * @param directory working directory of the file engine, which contains `.langgraph_api`.
 * @returns what was copied; undefined when there are no files or they were copied before.
 * @throws when the database does not have as many rows as the files afterwards. Nothing is copied then.
 */
export async function importFiles(database: Database, stock: Stock, directory: string): Promise<Copied | undefined> {
  const files = fileNames.map((name) => path.join(directory, stateDirectory, name));
  const digest = await digestOf(files);
  if (digest === undefined) return undefined;
  for (;;) {
    const [known] = await database.query("select 1 from @imports where digest = $1", [digest]);
    if (known !== undefined) return undefined;
    const result = await database.transaction(async (query) => {
      // Waiting for the lock in the database would end at the time limit of statements, and copying may take longer.
      const [lock] = await query<{ mine: boolean }>(
        "select pg_try_advisory_xact_lock(hashtextextended($1, 1)) as mine",
        [`langgraph-js-postgres ${database.schema}`],
      );
      if (lock?.mine !== true) return { isMine: false };
      const [done] = await query("select 1 from @imports where digest = $1", [digest]);
      if (done !== undefined) return { isMine: true };
      const copied = await copy(query, stock, { state: await readState(stock, files), schema: database.schema });
      await query("insert into @imports (digest, counts) values ($1, $2)", [digest, exact(copied)]);
      return { isMine: true, copied };
    });
    if (result.isMine) return result.copied;
    // The start deadline of the replica ends this, too.
    await sleep(turnIntervalMs);
  }
}

/** Returns a digest of the files without holding them in memory; undefined when none exists. */
async function digestOf(files: string[]): Promise<string | undefined> {
  const hash = createHash("sha256");
  let bytes = 0;
  for (const file of files) {
    const before = bytes;
    try {
      for await (const part of createReadStream(file)) {
        hash.update(part);
        bytes += part.length;
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    hash.update(`\n${bytes - before}\n`);
  }
  return bytes === 0 ? undefined : hash.digest("hex");
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}

async function readState(stock: Stock, files: string[]): Promise<FileState> {
  const [ops, checkpoints, store] = await Promise.all(
    files.map(async (file, index) => {
      try {
        const text = await readText(file);
        return text === "" ? {} : await stock.deserialize(text);
      } catch (cause) {
        throw new Error(`${fileNames[index]} cannot be read, so its state is not copied`, { cause });
      }
    }),
  );
  return { ...(ops as object), ...(checkpoints as object), ...(store as object) } as FileState;
}

async function copy(
  query: Query,
  stock: Stock,
  { state, schema }: { state: FileState; schema: string },
): Promise<Copied> {
  const counts: Copied = { assistants: 0, threads: 0, runs: 0, checkpoints: 0, writes: 0, items: 0, kept: 0 };
  for (const assistant of Object.values(state.assistants ?? {})) {
    if (await copyAssistant(query, assistant, state.assistant_versions ?? [])) counts.assistants += 1;
  }
  const runsOf = Map.groupBy(Object.values(state.runs ?? {}), ({ thread_id }) => thread_id as string);
  const writesOf = Map.groupBy(writesIn(state), ([[thread]]) => thread);
  for (const [id, thread] of Object.entries(state.threads ?? {})) {
    const rows = { id, runs: runsOf.get(id) ?? [], writes: writesOf.get(id) ?? [], state };
    const relation = await compareThread(query, thread, rows);
    if (relation === "older") await deleteStateOfThreads(query, schema, [id]);
    if (relation === "older" || relation === "absent") {
      await insertThread(query, thread);
      addTo(counts, { threads: 1, ...(await copyThread(query, stock, rows)) });
    } else addTo(counts, { kept: relation === "diverged" ? 1 : 0 });
  }
  addTo(counts, { items: await copyItems(query, state) });
  return counts;
}

async function copyItems(query: Query, { data }: FileState): Promise<number> {
  let copied = 0;
  for (const items of data?.values() ?? []) {
    for (const item of items.values()) if (await copyItem(query, item)) copied += 1;
  }
  return copied;
}

function addTo(counts: Copied, more: Partial<Copied>): void {
  for (const [name, count] of Object.entries(more)) counts[name as keyof Copied] += count;
}

interface ThreadRows {
  id: string;
  runs: StoredRow[];
  writes: [WriteKeys, StoredWrite][];
  state: FileState;
}

/** Copies everything that belongs to a thread. */
async function copyThread(query: Query, stock: Stock, { id, runs, writes, state }: ThreadRows) {
  for (const run of runs) await copyRun(query, run, state);
  let checkpoints = 0;
  for (const [namespace, all] of Object.entries(state.storage?.[id] ?? {})) {
    await copyCheckpoints(query, stock, { id, namespace, checkpoints: all });
    checkpoints += Object.keys(all).length;
  }
  for (const [keys, write] of writes) await copyWrite(query, keys, write);
  const wanted = { runs: runs.length, checkpoints, writes: writes.length };
  await expectRows(query, id, wanted);
  return wanted;
}

async function copyItem(query: Query, item: StoredItem): Promise<boolean> {
  const made = await query(
    `insert into @items as i (path, key, value, search, created_at, updated_at) values ($1, $2, $3, $4, $5, $6)
     on conflict (path, key) do update set value = excluded.value, search = excluded.search, updated_at = excluded.updated_at
       where excluded.updated_at > i.updated_at
     returning 1`,
    [
      pathOf(item.namespace),
      JSON.stringify(item.key),
      exact(item.value),
      searchable(item.value),
      item.createdAt,
      item.updatedAt,
    ],
  );
  return made.length > 0;
}

async function expectRows(query: Query, id: string, wanted: Pick<Counts, "runs" | "checkpoints" | "writes">) {
  const [found] = await query<Record<keyof typeof wanted, string>>(
    `select (select count(*) from @runs where thread_id = $1) as runs,
       (select count(*) from @checkpoints where thread_id = $1) as checkpoints,
       (select count(*) from @checkpoint_writes where thread_id = $1) as writes`,
    [id],
  );
  for (const [name, count] of Object.entries(wanted)) {
    const copied = Number(found?.[name as keyof typeof wanted]);
    if (copied === count) continue;
    throw new Error(`thread ${id} has ${count} ${name} in the files, but ${copied} were copied: nothing is copied`);
  }
}

async function copyAssistant(query: Query, one: StoredRow, versions: StoredRow[]): Promise<boolean> {
  const id = plainText(one.assistant_id);
  const valuesOf = (row: StoredRow) => [
    id,
    plainText(row.graph_id),
    plainText(row.name || row.graph_id),
    row.description == null ? null : plainText(row.description),
    row.version ?? 1,
    exact(row.config ?? {}),
    exact(row.context ?? {}),
    exact(row.metadata ?? {}),
    searchable(row.metadata ?? {}),
    row.created_at,
  ];
  const made = await query(
    `insert into @assistants as a (assistant_id, graph_id, name, description, version, config, context, metadata, search, created_at, updated_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
     on conflict (assistant_id) do update set graph_id = excluded.graph_id, name = excluded.name,
       description = excluded.description, version = excluded.version, config = excluded.config, context = excluded.context,
       metadata = excluded.metadata, search = excluded.search, updated_at = excluded.updated_at
       where excluded.updated_at > a.updated_at and excluded.version > a.version
     returning 1`,
    [...valuesOf(one), one.updated_at ?? one.created_at],
  );
  if (made.length === 0) return false;
  for (const version of versions.filter(({ assistant_id }) => assistant_id === one.assistant_id)) {
    await query(
      `insert into @assistant_versions (assistant_id, graph_id, name, description, version, config, context, metadata, search, created_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict do nothing`,
      valuesOf(version),
    );
  }
  return true;
}

type Relation = "absent" | "older" | "current" | "diverged";

/**
 * Returns what the database has of a thread. After a move that failed, or a rollback, the files went on and the database has an
 * earlier state of them. A thread that also went on in the database is not given up.
 */
async function compareThread(
  query: Query,
  { updated_at, created_at }: StoredRow,
  { id, runs, state }: ThreadRows,
): Promise<Relation> {
  // The lock keeps requests of other replicas away until the copy is complete.
  const [found] = await query<{ is_older: boolean }>(
    "select date_trunc('milliseconds', updated_at) < $2::timestamptz as is_older from @threads where thread_id = $1 for update",
    [id, updated_at ?? created_at],
  );
  if (found === undefined) return "absent";
  const names = Object.entries(state.storage?.[id] ?? {}).flatMap(([namespace, all]) =>
    Object.keys(all).map((checkpoint) => JSON.stringify([namespace, checkpoint])),
  );
  const inFiles = new Set([...names, ...runs.map(({ run_id }) => run_id as string)]);
  const rows = await query<{ name: string }>(
    `select run_id as name from @runs where thread_id = $1
     union all select json_build_array(checkpoint_ns, checkpoint_id)::text from @checkpoints where thread_id = $1`,
    [id],
  );
  const inDatabase = new Set(rows.map(({ name }) => (name.startsWith("[") ? JSON.stringify(JSON.parse(name)) : name)));
  if (found.is_older && [...inDatabase].every((name) => inFiles.has(name))) return "older";
  return [...inFiles].every((name) => inDatabase.has(name)) ? "current" : "diverged";
}

async function insertThread(query: Query, one: StoredRow): Promise<void> {
  await query(
    `insert into @threads (thread_id, status, metadata, search, config, "values", values_search, interrupts, created_at, updated_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
     on conflict (thread_id) do update set status = excluded.status, metadata = excluded.metadata, search = excluded.search,
       config = excluded.config, "values" = excluded."values", values_search = excluded.values_search,
       interrupts = excluded.interrupts, updated_at = excluded.updated_at`,
    [
      one.thread_id,
      one.status ?? "idle",
      exact(one.metadata ?? {}),
      searchable(one.metadata ?? {}),
      exact(one.config ?? {}),
      one.values == null ? null : exact(one.values),
      one.values == null ? null : searchable(one.values),
      one.interrupts == null ? null : exact(one.interrupts),
      one.created_at,
      one.updated_at ?? one.created_at,
    ],
  );
}

/** A run that was in progress is claimed again, and goes on at its last checkpoint. */
async function copyRun(query: Query, run: StoredRow, { assistants }: FileState): Promise<void> {
  const graphId = assistants?.[run.assistant_id]?.graph_id ?? run.kwargs?.config?.configurable?.graph_id ?? "";
  await query(
    `insert into @runs (run_id, thread_id, assistant_id, graph_id, status, metadata, search, kwargs, multitask_strategy,
       created_at, updated_at, due_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $10)`,
    [
      run.run_id,
      run.thread_id,
      run.assistant_id,
      graphId,
      run.status === "running" ? "pending" : run.status,
      exact(run.metadata ?? {}),
      searchable(run.metadata ?? {}),
      exact(run.kwargs ?? {}),
      run.multitask_strategy ?? "reject",
      run.created_at,
      run.updated_at ?? run.created_at,
    ],
  );
}

interface ThreadCheckpoints {
  id: string;
  namespace: string;
  checkpoints: Record<string, StoredCheckpoint>;
}

/**
 * The file engine counts versions up, so that two branches of a thread have the same version with different values. Here values
 * are stored by version: each branch gets versions of its own. Ids rise with time, so that parents come before their children.
 */
async function copyCheckpoints(query: Query, stock: Stock, { id, namespace, checkpoints }: ThreadCheckpoints) {
  const { serde } = stock.checkpointer;
  const versionsOf = new Map<string, Map<string, string>>();
  for (const key of Object.keys(checkpoints).sort()) {
    const [bytes, metadata, parentId] = checkpoints[key] as StoredCheckpoint;
    const checkpoint = (await serde.loadsTyped("json", bytes)) as Checkpoint;
    const inherited = versionsOf.get(parentId ?? "");
    const own = new Map<string, string>();
    const versionOf = (channel: string, version: unknown) => {
      const name = JSON.stringify([channel, version]);
      const found = own.get(name) ?? inherited?.get(name) ?? uniqueVersion(version);
      own.set(name, found);
      return found;
    };
    const channel_versions: Record<string, string> = {};
    for (const [channel, version] of Object.entries(checkpoint.channel_versions ?? {})) {
      const isNew = inherited?.has(JSON.stringify([channel, version])) !== true;
      channel_versions[channel] = versionOf(channel, version);
      if (!isNew) continue;
      const hasValue = channel in (checkpoint.channel_values ?? {});
      const [type, value] = hasValue ? await serde.dumpsTyped(checkpoint.channel_values[channel]) : ["empty", null];
      await query(
        `insert into @checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob) values ($1, $2, $3, $4, $5, $6)`,
        [id, namespace, channel, channel_versions[channel], type, value === null ? null : Buffer.from(value)],
      );
    }
    const versions_seen = Object.fromEntries(
      Object.entries(checkpoint.versions_seen ?? {}).map(([node, seen]) => [
        node,
        Object.fromEntries(Object.entries(seen).map(([channel, version]) => [channel, versionOf(channel, version)])),
      ]),
    );
    versionsOf.set(key, own);
    const { channel_values: _, ...rest } = checkpoint;
    await query(
      `insert into @checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
       values ($1, $2, $3, $4, $5, $6)`,
      [
        id,
        namespace,
        key,
        parentId ?? null,
        searchable({ ...rest, channel_versions, versions_seen }),
        searchable(JSON.parse(Buffer.from(metadata).toString())),
      ],
    );
  }
}

/** As the checkpointer of this engine makes them: a count of 32 digits, and a random part. */
function uniqueVersion(version: unknown): string {
  const count = typeof version === "number" ? version : Number.parseInt(String(version), 10) || 0;
  return `${String(count).padStart(32, "0")}.${randomBytes(8).toString("hex")}`;
}

type WriteKeys = [thread: string, namespace: string, checkpoint: string, task: string, index: number];

function writesIn({ writes }: FileState): [WriteKeys, StoredWrite][] {
  return Object.entries(writes ?? {}).flatMap(([outer, all]) => {
    const [thread, namespace, checkpoint] = JSON.parse(outer) as [string, string, string];
    return Object.entries(all).map(([inner, write]): [WriteKeys, StoredWrite] => {
      const comma = inner.lastIndexOf(",");
      return [[thread, namespace, checkpoint, inner.slice(0, comma), Number(inner.slice(comma + 1))], write];
    });
  });
}

async function copyWrite(query: Query, keys: WriteKeys, [, channel, bytes]: StoredWrite): Promise<void> {
  await query(
    `insert into @checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob)
     values ($1, $2, $3, $4, $5, $6, 'json', $7)`,
    [...keys, channel, Buffer.from(bytes)],
  );
}
