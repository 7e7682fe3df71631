import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import pg from "pg";
import { freePort } from "../support/free-port.ts";
import type { PostgresServer } from "../support/postgres-server.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import type { Loose, Target } from "./checks.ts";

export const packageDir = path.resolve(import.meta.dirname, "../../engines/langgraph-js-postgres");

export interface Replica extends Target {
  process: ChildProcess;
  /** Resolves with the exit code, or the signal that ended the process. */
  ended: Promise<number | string>;
  log(): string;
}

export interface ReplicaOptions {
  connectionString?: string;
  /** Options of the engine. */
  engine?: Loose;
  /** Options of the stock server. */
  server?: Loose;
  /** File into which the graphs write their steps. */
  journal?: string;
  /** Working directory. Default: a new one. */
  cwd?: string;
}

const directory = mkdtempSync(path.join(tmpdir(), "pierhead-engine-"));
const children = new Set<ChildProcess>();

process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
});

/** Starts a server with the graphs of the example, and waits until it listens. */
export async function startReplica(kind: "file" | "postgres", options: ReplicaOptions = {}): Promise<Replica> {
  const port = await freePort();
  const engineOptions = { connectionString: options.connectionString, ...options.engine };
  const cwd = options.cwd ?? newDirectory();
  const argv = [kind, JSON.stringify({ port, cwd, engineOptions, server: options.server })];
  const env = {
    ...process.env,
    LOG_JSON: "true",
    LANGSMITH_TRACING: "false",
    ...(options.journal && { JOURNAL: options.journal }),
  };
  const child = fork(path.join(import.meta.dirname, "host.mjs"), argv, {
    env,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  children.add(child);
  let log = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      log = (log + text).slice(-1_000_000);
    });
  }
  const ended = new Promise<number | string>((resolve) => {
    child.once("exit", (code, signal) => {
      children.delete(child);
      resolve(code ?? signal ?? -1);
    });
  });
  const ready = new Promise((resolve) => child.once("message", resolve));
  await Promise.race([
    ready,
    ended.then((code) => {
      throw new Error(`the replica ended with ${code} before it listened:\n${log.slice(-3_000)}`);
    }),
  ]);
  const url = `http://127.0.0.1:${port}`;
  return { process: child, ended, url, client: await clientOf(url), log: () => log };
}

/** Returns a client of the JavaScript SDK. */
export async function clientOf(apiUrl: string, headers: Record<string, string> = {}): Promise<Loose> {
  const file = path.join(packageDir, "node_modules/@langchain/langgraph-sdk/dist/index.js");
  const { Client } = await import(pathToFileURL(file).href);
  return new Client({ apiUrl, apiKey: null, defaultHeaders: headers, callerOptions: { maxRetries: 0 } });
}

export interface Step {
  event: "begin" | "end";
  run_id: string;
  thread_id: string;
  step: number;
  pid: number;
  at: number;
}

export const newDirectory = () => mkdtempSync(path.join(directory, "cwd-"));

export const newJournal = () => path.join(mkdtempSync(path.join(directory, "journal-")), "steps");

export function readJournal(file: string): Step[] {
  try {
    return readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  } catch {
    return [];
  }
}

/** Ways to a PostgreSQL that can be cut, one for each replica. Without `isCut` all use its socket, which needs no work of this process. */
export async function openNetwork(server: PostgresServer | undefined, port: number, isCut: boolean) {
  const url = server?.url ?? "";
  if (!isCut) return { connect: async () => ({ connectionString: url, proxy: undefined }), close: async () => {} };
  const password = "kills";
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await admin.query(`alter role postgres password '${password}'`);
  await admin.end();
  const proxies: TcpProxy[] = [];
  return {
    async connect() {
      const proxy = await startTcpProxy(`http://127.0.0.1:${port}`);
      proxies.push(proxy);
      return { connectionString: `postgresql://postgres:${password}@${new URL(proxy.url).host}/postgres`, proxy };
    },
    close: async () => void (await Promise.all(proxies.map((proxy) => proxy[Symbol.asyncDispose]()))),
  };
}

/** Takes the network from a replica for this long. Its open connections are lost, which it learns when the network is back. */
export async function cutNetwork(proxy: TcpProxy, ms: number): Promise<void> {
  proxy.become("blackhole");
  await sleep(ms);
  proxy.become("reset");
  proxy.become("none");
}

/** Reads the stream of a run to its end as a client does: it reconnects to any replica with the id of the last event. */
export async function followStream(
  urls: () => string[],
  thread: string,
  run: string,
): Promise<{ id: number; event: string; data: Loose }[]> {
  const events: { id: number; event: string; data: Loose }[] = [];
  let lastId = "-1";
  // A replica that ends, or whose database is away, closes a stream early. Only one that began after the end of the run is whole.
  let hadEnded = false;
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const candidates = urls();
    const url = candidates[attempt % candidates.length];
    try {
      const headers = { "last-event-id": lastId };
      const answer = await fetch(`${url}/threads/${thread}/runs/${run}/stream`, { headers });
      let text = "";
      for await (const part of (answer.body?.pipeThrough(new TextDecoderStream()) ?? []) as AsyncIterable<string>) {
        text += part;
        const blocks = text.split("\n\n");
        text = blocks.pop() ?? "";
        for (const block of blocks) {
          const field = (name: string) =>
            block
              .split("\n")
              .find((line) => line.startsWith(`${name}: `))
              ?.slice(name.length + 2);
          lastId = field("id") ?? lastId;
          events.push({
            // Aegra puts the id of the run before the number.
            id: Number(/\d+$/.exec(field("id") ?? "")?.[0]),
            event: field("event") ?? "",
            data: JSON.parse(field("data") ?? "null"),
          });
        }
      }
      const current = await fetch(`${url}/threads/${thread}/runs/${run}`);
      const { status } = (await current.json()) as { status: string };
      if (hadEnded) return events;
      hadEnded = status !== "pending" && status !== "running";
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
  throw new Error("the stream never ended");
}
