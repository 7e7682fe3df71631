import { Socket } from "node:net";
import pg from "pg";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { outsideSpans } from "../../telemetry/traces.ts";
import { outsideTransaction } from "./statement-pool.ts";

/** Tells "look again" from those who wrote a change to those who follow changes. It carries nothing else. */
export interface ChangeFeed {
  /** Call it after the commit. On PostgreSQL other servers hear of it too, some 20 ms later at most. Never throws. */
  wake(): void;
  /** The same when there is news to watch and nothing to do: it wakes those alone who follow events. */
  wakeWatchers(): void;
  /** @returns what ends it. */
  onWake(listener: () => void): () => void;
  /** Hears both kinds. @returns what ends it. */
  onEvents(listener: () => void): () => void;
  close(): Promise<void>;
}

/**
 * A NOTIFY holds a lock of the whole database while it commits. One for all changes within 20 ms, outside of the
 * transactions that write, keeps it out of their way (inside, it cost 2.4 times the throughput of creates).
 */
const notifyIntervalMs = 20;

const reconnectMinMs = 500;
const reconnectMaxMs = 15_000;
const connectTimeoutMs = 10_000;

/** What is to be done, and what is to be seen. */
const channels = { work: "pierhead_changes", events: "pierhead_events" } as const;
type Topic = keyof typeof channels;

/** @param databaseUrl undefined: the embedded database, which no other server can use. */
export function createChangeFeed(databaseUrl: string | undefined, logger: Logger): ChangeFeed {
  const listeners = { work: new Set<() => void>(), events: new Set<() => void>() };
  const tell = (topic: Topic) => {
    const called = topic === "work" ? [...listeners.work, ...listeners.events] : listeners.events;
    for (const listener of called) outsideSpans(() => outsideTransaction(listener));
  };
  const listen = (topic: Topic, listener: () => void) => {
    listeners[topic].add(listener);
    return () => listeners[topic].delete(listener);
  };
  const others = databaseUrl === undefined ? undefined : new OtherServers(databaseUrl, tell, logger);
  return {
    wake() {
      tell("work");
      others?.notify("work");
    },
    wakeWatchers() {
      tell("events");
      others?.notify("events");
    },
    onWake: (listener) => listen("work", listener),
    onEvents: (listener) => listen("events", listener),
    async close() {
      listeners.work.clear();
      listeners.events.clear();
      await others?.close();
    },
  };
}

/** One connection that listens and notifies, and comes back when it is lost. */
class OtherServers {
  readonly #databaseUrl: string;
  readonly #heard: (topic: Topic) => void;
  readonly #logger: Logger;
  #client: pg.Client | undefined;
  /** Of the connection that there is, or that is being made. */
  #socket: Socket | undefined;
  #attempts = 0;
  #reconnect: NodeJS.Timeout | undefined;
  #pause: NodeJS.Timeout | undefined;
  readonly #wanted = new Set<Topic>();
  #isClosed = false;
  #connecting: Promise<void>;

  constructor(databaseUrl: string, heard: (topic: Topic) => void, logger: Logger) {
    this.#databaseUrl = databaseUrl;
    this.#heard = heard;
    this.#logger = logger;
    this.#connecting = this.#connect();
  }

  /** At once when the last one is long enough ago, otherwise one for all at the end of the pause. */
  notify(topic: Topic): void {
    this.#wanted.add(topic);
    this.#send();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#reconnect);
    clearTimeout(this.#pause);
    // Without a goodbye: one that stands still would let us wait for its answer for ever.
    this.#socket?.destroy();
    await this.#connecting;
  }

  #send(): void {
    if (this.#wanted.size === 0 || this.#pause !== undefined || this.#isClosed || this.#client === undefined) return;
    // Who hears of work looks at events too.
    const topic = this.#wanted.has("work") ? "work" : "events";
    this.#wanted.clear();
    const sent = this.#client.query(`notify ${channels[topic]}`).catch(() => {
      this.#wanted.add(topic);
    });
    this.#pause = setTimeout(async () => {
      await sent;
      this.#pause = undefined;
      this.#send();
    }, notifyIntervalMs).unref();
  }

  async #connect(): Promise<void> {
    const socket = new Socket();
    this.#socket = socket;
    const client = new pg.Client({
      stream: () => socket,
      connectionString: this.#databaseUrl,
      application_name: "pierhead changes",
      connectionTimeoutMillis: connectTimeoutMs,
      keepAlive: true,
    });
    client.on("error", () => {
      // Its end follows.
    });
    client.on("end", () => this.#lost(client));
    client.on("notification", (message) => {
      if (message.processId === (client as { processID?: number }).processID) return;
      this.#heard(message.channel === channels.work ? "work" : "events");
    });
    try {
      await client.connect();
      // A lost NOTIFY costs a second (readers poll), so its commit need not wait for the disk.
      await client.query(`set synchronous_commit = off; listen ${channels.work}; listen ${channels.events}`);
      this.#client = client;
      this.#attempts = 0;
      // Whatever was announced while we did not listen.
      this.#heard("work");
      this.#send();
    } catch (error) {
      if (!this.#isClosed)
        this.#logger.warn({ error: describeError(error) }, "cannot listen for changes of other servers");
      await client.end().catch(() => {
        // It never began.
      });
      this.#lost(client);
    }
  }

  #lost(client: pg.Client): void {
    if (this.#client === client) this.#client = undefined;
    if (this.#isClosed || this.#reconnect !== undefined || this.#client !== undefined) return;
    const delayMs = Math.min(reconnectMaxMs, reconnectMinMs * 2 ** this.#attempts) * (0.5 + Math.random() / 2);
    this.#attempts += 1;
    this.#reconnect = setTimeout(() => {
      this.#reconnect = undefined;
      this.#connecting = this.#connect();
    }, delayMs).unref();
  }
}
