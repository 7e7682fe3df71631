import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";
import pg from "pg";
import type { Settings } from "../settings.ts";
import type { Database, Query } from "./database.ts";

/**
 * What replicas tell each other. `events`: a run has new events or has ended. `queue`: a run can be claimed.
 * `cancel`: stop a running run. `reconnected`: signals may have been missed, so everything is read again.
 */
export interface SignalMap {
  events: [runId: string];
  queue: [];
  cancel: [runId: string];
  reconnected: [];
}

/** One connection of its own that listens to the signals of the schema, and that renews leases while the pool is busy. */
export class Signals extends EventEmitter<SignalMap> {
  readonly #settings: Settings;
  readonly #channel: string;
  readonly #onError: (error: Error) => void;
  #client: pg.Client | undefined;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;
  readonly #database: Database;

  constructor(database: Database, settings: Settings, onError: (error: Error) => void) {
    super();
    this.setMaxListeners(0);
    this.#database = database;
    this.#settings = settings;
    this.#onError = onError;
    this.#channel = channelOf(settings.schema);
  }

  async open(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#settings.connectionString,
      connectionTimeoutMillis: 5_000,
      statement_timeout: 5_000,
      query_timeout: 5_000,
      keepAlive: true,
      application_name: `langgraph-js-postgres ${this.#settings.schema} signals`,
    });
    client.on("notification", ({ payload = "" }) => this.#receive(payload));
    client.on("error", (error) => this.#lost(client, error));
    client.on("end", () => this.#lost(client));
    await client.connect();
    await client.query(`listen "${this.#channel}"`);
    if (this.#closed) return client.end();
    this.#client = client;
    this.emit("reconnected");
  }

  /** Runs a statement on the connection of the signals. @throws while it is lost. */
  readonly query: Query = async (text, values = []) => {
    if (this.#client === undefined) throw new Error("the connection for signals is lost");
    const client = this.#client;
    try {
      return (await client.query(this.#database.named(text), values)).rows;
    } catch (error) {
      // A connection without an answer is replaced, because its later statements would queue behind this one.
      this.#lost(client, error as Error);
      throw error;
    }
  };

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    await this.#client?.end().catch(() => {});
  }

  #receive(payload: string): void {
    const [kind, id = ""] = payload.split(" ");
    if (kind === "events") this.emit("events", id);
    else if (kind === "cancel") this.emit("cancel", id);
    else if (kind === "queue") this.emit("queue");
  }

  #lost(client: pg.Client, error?: Error): void {
    if (this.#client !== client && this.#client !== undefined) return;
    if (error !== undefined) this.#onError(error);
    this.#client = undefined;
    client.end().catch(() => {});
    if (this.#closed) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.open().catch((failure: Error) => this.#lost(client, failure)), 500);
  }
}

/** Sends a signal when the transaction of `query` commits. */
export async function signal(
  query: Query,
  schema: string,
  kind: "events" | "queue" | "cancel",
  id = "",
): Promise<void> {
  await query("select pg_notify($1, $2)", [channelOf(schema), `${kind} ${id}`]);
}

/** A name of at most 63 bytes for any schema. */
export function channelOf(schema: string): string {
  return `langgraph_${createHash("sha256").update(schema).digest("hex").slice(0, 24)}`;
}
