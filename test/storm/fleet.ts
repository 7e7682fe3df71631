import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { mintApiKey } from "../../src/auth/api-key.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";
import type { Clocks } from "./skewed-clocks.ts";

/** Settings that all replicas of a control plane share. */
export const keys = {
  admin: mintApiKey().key,
  listener: mintApiKey().key,
  master: randomBytes(32).toString("base64"),
};

/** One of several servers on one database. It keeps its port and data directory across its many restarts. */
export class Replica {
  readonly dataDir: string;
  readonly url: string;
  /** Directory of the sources that its next start runs. */
  program = ".";
  readonly #environment: Record<string, string>;
  #server: ServerProcess | undefined;

  constructor(dataDir: string, port: number, environment: Record<string, string>) {
    this.dataDir = dataDir;
    this.url = `http://127.0.0.1:${port}`;
    this.#environment = { ...environment, PORT: String(port) };
  }

  get server(): ServerProcess {
    if (this.#server === undefined) throw new Error("this replica was not started");
    return this.#server;
  }

  async start(): Promise<void> {
    this.#server = await startServerProcess(this.dataDir, this.#environment, { program: this.program });
  }

  /** Ends the process, cleanly or by SIGKILL, and starts it again. */
  async restart(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    this.server.child.kill(signal);
    await this.server.ended;
    await this.start();
  }

  async freeze(ms: number): Promise<void> {
    this.server.child.kill("SIGSTOP");
    await sleep(ms).finally(() => this.server.child.kill("SIGCONT"));
  }
}

export interface ReplicasWanted {
  directory: string;
  count: number;
  databaseUrl: string;
  program?: string;
  environment?: Record<string, string>;
  /** Environment of each replica, such as its clock. */
  clocks?: Clocks;
}

/** Starts replicas on one database and waits until each is ready. */
export async function startReplicas(wanted: ReplicasWanted): Promise<Replica[]> {
  const environment = {
    DATABASE_URL: wanted.databaseUrl,
    PIERHEAD_COMPUTE: "none",
    PIERHEAD_ADMIN_KEY: keys.admin,
    PIERHEAD_LISTENER_KEY: keys.listener,
    PIERHEAD_MASTER_KEY: keys.master,
    PIERHEAD_CACHE_DIR: path.resolve("node_modules/.cache/pierhead"),
    PIERHEAD_DRAIN_TIMEOUT_MS: "5000",
    ...wanted.environment,
  };
  const replicas: Replica[] = [];
  for (let index = 1; index <= wanted.count; index += 1) {
    const replica = new Replica(path.join(wanted.directory, `replica-${index}`), await freePort(), {
      ...environment,
      ...(await wanted.clocks?.next()),
    });
    replica.program = wanted.program ?? ".";
    replicas.push(replica);
  }
  // All start at the same time on an empty database, as in a cluster.
  await Promise.all(replicas.map((replica) => replica.start()));
  return replicas;
}

/** `pierhead listener` on process compute, as a separate process. */
export class ListenerProcess {
  readonly dataDir: string;
  readonly url: string;
  /** Directory of the sources that its next start runs. */
  program = ".";
  readonly #environment: Record<string, string>;
  #child: ChildProcess | undefined;
  #output = "";

  constructor(dataDir: string, port: number, controlPlaneUrl: string, environment: Record<string, string> = {}) {
    this.dataDir = dataDir;
    this.url = `http://127.0.0.1:${port}`;
    this.#environment = {
      ...environment,
      PORT: String(port),
      PIERHEAD_URL: controlPlaneUrl,
      PIERHEAD_LISTENER_KEY: keys.listener,
      PIERHEAD_COMPUTE: "process",
      PIERHEAD_DATA_DIR: dataDir,
      PIERHEAD_LOG_LEVEL: "warn",
    };
  }

  async start(): Promise<void> {
    await mkdir(this.dataDir, { recursive: true });
    const env = { ...process.env, NO_COLOR: "1", ...this.#environment };
    const args = [path.resolve(this.program, "src/main.ts"), "listener"];
    const child = spawn(process.execPath, args, { env, stdio: ["ignore", "ignore", "pipe"] });
    child.stderr?.on("data", (chunk: Buffer) => {
      this.#output = (this.#output + chunk.toString()).slice(-20_000);
    });
    this.#child = child;
    const answers = () =>
      fetch(`${this.url}/ok`).then(
        ({ ok }) => ok,
        () => false,
      );
    await eventually(answers, (ok) => ok || child.exitCode !== null, { timeoutMs: 120_000, what: "the listener" });
    if (child.exitCode !== null) throw new Error(`the listener ended:\n${this.#output}`);
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child as ChildProcess;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }
}

export interface Harm {
  kills: number;
  restarts: number;
  freezes: number;
  listenerKills: number;
}

/**
 * Injects a fault every `pauseMs`: kills, restarts or freezes a replica for up to `freezeMsMax`, while at least
 * one of the others works. Kills the listener now and then.
 */
export function startHarm(
  replicas: Replica[],
  listener: ListenerProcess,
  { pauseMs, freezeMsMax }: { pauseMs: number; freezeMsMax: number },
) {
  const stopping = new AbortController();
  const counts: Harm = { kills: 0, restarts: 0, freezes: 0, listenerKills: 0 };
  const busy = new Set<Replica>();
  const pause = () => sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => {});
  const lane = async (act: (replica: Replica, turn: number) => Promise<void>) => {
    for (let turn = 0; !stopping.signal.aborted; turn += 1) {
      const free = replicas.filter((replica) => !busy.has(replica));
      const victim = free[Math.floor(Math.random() * free.length)];
      if (victim !== undefined && free.length > 1) {
        busy.add(victim);
        await act(victim, turn).finally(() => busy.delete(victim));
      }
      await pause();
    }
  };
  const killing = lane(async (replica, turn) => {
    if (turn % 4 === 3) {
      await replica.restart();
      counts.restarts += 1;
    } else {
      await replica.restart("SIGKILL");
      counts.kills += 1;
    }
    if (turn % 3 === 1) {
      await listener.end("SIGKILL");
      await listener.start();
      counts.listenerKills += 1;
    }
  });
  const freezing = lane(async (replica, turn) => {
    // Every second freeze is long enough that the others consider the replica dead.
    await replica.freeze(turn % 2 === 1 ? freezeMsMax : Math.random() * freezeMsMax);
    counts.freezes += 1;
  });
  const ended = Promise.all([killing, freezing]);
  // A failure is rethrown when the storm is stopped.
  ended.catch(() => {});
  return {
    counts,
    async stop(): Promise<Harm> {
      stopping.abort();
      await ended;
      return counts;
    },
  };
}
