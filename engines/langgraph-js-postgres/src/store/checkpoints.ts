import { randomBytes } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointTuple,
  type PendingWrite,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import type pg from "pg";
import type { Stock } from "../stock.ts";
import { type Database, type Query, repeated } from "./database.ts";
import { searchable } from "./json.ts";

/** The runs that this replica executes. */
export interface Leases {
  /** Returns the lease under which this replica executes a run. @throws when the replica has lost the run. */
  leaseOf(runId: string): string;
  /** Waits until the events that a run has sent so far are written, or its lease is lost. */
  eventsWritten(runId: string): Promise<void>;
  /** Stops the execution of a run that another replica has taken. */
  lose(runId: string): void;
}

/** A checkpoint belongs to the lease of its run: a replica that lost the run writes no more. */
const lease = `
  lease as (select 1 from @runs where run_id = $1 and lease_owner = $2 and status = 'running' for share),
  allowed as (select 1 where $1::text is null or exists (select 1 from lease))`;

/**
 * The checkpointer of the library on the tables of the library. It writes each checkpoint with one statement, under the lease
 * of the run.
 */
class LeasedSaver extends PostgresSaver {
  readonly #database: Database;
  readonly #leases: Leases;

  constructor(database: Database, stock: Stock, leases: Leases) {
    super(database.pool, stock.checkpointer.serde, { schema: database.schema });
    this.#database = database;
    this.#leases = leases;
  }

  /**
   * Returns a version that no other branch of the thread has. The library stores channel values by version, and counts
   * versions up: a run from an earlier checkpoint would read the values of the first branch.
   */
  override getNextVersion(current: number | string | undefined): number {
    const count = typeof current === "string" ? Number.parseInt(current, 10) : (current ?? 0);
    const version = `${String(count + 1).padStart(32, "0")}.${randomBytes(8).toString("hex")}`;
    return version as unknown as number;
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const { thread_id, checkpoint_ns = "", checkpoint_id } = config.configurable ?? {};
    const blobs = await this._dumpBlobs(thread_id, checkpoint_ns, checkpoint.channel_values, newVersions);
    const [row] = await this.#write(
      config,
      `with ${lease}, blobs as (
         insert into @checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
         select $3, $4, b.* from unnest($5::text[], $6::text[], $7::text[], $8::bytea[]) b, allowed on conflict do nothing)
       insert into @checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
       select $3, $4, $9, $10, $11, $12 from allowed
       on conflict (thread_id, checkpoint_ns, checkpoint_id)
       do update set checkpoint = excluded.checkpoint, metadata = excluded.metadata returning 1 as n`,
      [
        thread_id,
        checkpoint_ns,
        blobs.map((blob) => blob[2]),
        blobs.map((blob) => blob[3]),
        blobs.map((blob) => blob[4]),
        blobs.map((blob) => (blob[5] === undefined ? null : Buffer.from(blob[5]))),
        checkpoint.id,
        checkpoint_id ?? null,
        searchable(this._dumpCheckpoint(checkpoint)),
        searchable(await this._dumpMetadata({ ...metadataOf(config), ...metadata })),
      ],
    );
    this.#expectWritten(config, row !== undefined);
    return { configurable: { thread_id, checkpoint_ns, checkpoint_id: checkpoint.id } };
  }

  override async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const { thread_id, checkpoint_ns = "", checkpoint_id } = config.configurable ?? {};
    const replaces = writes.every(([channel]) => channel in WRITES_IDX_MAP);
    const dumped = await this._dumpWrites(thread_id, checkpoint_ns, checkpoint_id, taskId, writes);
    // One statement must not write a row twice. Writes of a special channel share an index, and the last one counts.
    const rows = [...new Map(dumped.map((write) => [write[4], write])).values()];
    const conflict = replaces
      ? "(thread_id, checkpoint_ns, checkpoint_id, task_id, idx) do update set channel = excluded.channel, type = excluded.type, blob = excluded.blob"
      : "do nothing";
    const [row] = await this.#write(
      config,
      `with ${lease}, written as (
         insert into @checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob)
         select $3, $4, $5, $6, w.* from unnest($7::integer[], $8::text[], $9::text[], $10::bytea[]) w, allowed
         on conflict ${conflict})
       select count(*) as n from allowed`,
      [
        thread_id,
        checkpoint_ns,
        checkpoint_id,
        taskId,
        rows.map((write) => write[4]),
        rows.map((write) => write[5]),
        rows.map((write) => write[6]),
        rows.map((write) => Buffer.from(write[7])),
      ],
    );
    this.#expectWritten(config, row?.n !== "0");
  }

  protected override _searchWhere(
    config?: RunnableConfig,
    filter?: Record<string, unknown>,
    before?: RunnableConfig,
  ): [string, unknown[]] {
    return super._searchWhere(config, filter && JSON.parse(searchable(filter)), before);
  }

  override getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    return repeated(() => super.getTuple(config), this.#check(config));
  }

  /**
   * Runs a statement under the lease, whose values come first. Updates of the state by a request belong to no run. Writes
   * the events of the run first: a step with a checkpoint is not run again, so events that were lost with the process would stay missing.
   */
  async #write(config: RunnableConfig, text: string, values: unknown[]): Promise<{ n: string }[]> {
    const runId = runIdOf(config);
    if (runId !== undefined) await this.#leases.eventsWritten(runId);
    return repeated(() => {
      const leased = runId === undefined ? [null, null] : [runId, this.#leases.leaseOf(runId)];
      return this.#database.query<{ n: string }>(text, [...leased, ...values]);
    }, this.#check(config));
  }

  #expectWritten(config: RunnableConfig, written: boolean): void {
    if (written) return;
    this.#leases.lose(runIdOf(config) ?? "");
    throw new Error("another replica has taken the run");
  }

  /** An execution waits for the database as long as it has its lease, so that an outage is no error of the run. */
  #check(config: RunnableConfig): (() => void) | undefined {
    const runId = runIdOf(config);
    return runId === undefined ? undefined : () => void this.#leases.leaseOf(runId);
  }
}

const runIdOf = (config: RunnableConfig): string | undefined => config.configurable?.["run_id"];

/** Returns the metadata that the file engine gives to a checkpoint, without the user and credentials of the request. */
function metadataOf(config: RunnableConfig): Record<string, unknown> {
  const excluded = /^(__|langgraph_auth|checkpoint_ns$|checkpoint_id$|thread_id$)/;
  return {
    ...Object.fromEntries(Object.entries(config.configurable ?? {}).filter(([key]) => !excluded.test(key))),
    ...Object.fromEntries(Object.entries(config.metadata ?? {}).filter(([key]) => !/^langgraph_auth/.test(key))),
  };
}

/** Creates and updates the tables of the checkpoint library within the transaction of `query`. */
export async function migrateCheckpoints(query: Query, schema: string): Promise<void> {
  // The library finds out by a failing statement that this table is missing. A failure would end the transaction.
  await query("create table if not exists @checkpoint_migrations (v integer primary key)");
  const client = {
    query: async (text: string, values?: unknown[]) => ({ rows: await query(text, values) }),
    release() {},
  };
  await new PostgresSaver({ connect: async () => client } as unknown as pg.Pool, undefined, { schema }).setup();
  await query("create index if not exists checkpoints_run on @checkpoints (thread_id, (metadata ->> 'run_id'))");
}

/** Lets the checkpointer of the stock server work on the database. */
export function installCheckpointer(database: Database, stock: Stock, leases: Leases): void {
  const saver = new LeasedSaver(database, stock, leases);
  Object.assign(stock.checkpointer, {
    initialize: async () => ({ flush: async () => {} }),
    getNextVersion: saver.getNextVersion.bind(saver),
    getTuple: saver.getTuple.bind(saver),
    list: saver.list.bind(saver),
    put: saver.put.bind(saver),
    putWrites: saver.putWrites.bind(saver),
    deleteThread: saver.deleteThread.bind(saver),
  });
}

/** Copies all checkpoints of a thread to a new one. */
export async function copyCheckpoints(query: Query, from: string, to: string): Promise<void> {
  await query(
    `insert into @checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
     select $2, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, replace(metadata::text, $1, $2)::jsonb
     from @checkpoints where thread_id = $1`,
    [from, to],
  );
  await query(
    `insert into @checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
     select $2, checkpoint_ns, channel, version, type, blob from @checkpoint_blobs where thread_id = $1`,
    [from, to],
  );
  await query(
    `insert into @checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob)
     select $2, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob from @checkpoint_writes where thread_id = $1`,
    [from, to],
  );
}
