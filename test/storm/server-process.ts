import { type ChildProcess, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** A real Pierhead server as a separate process, which may die at any moment. */
export interface ServerProcess {
  url: string;
  apiKey: string;
  workspaceId: string;
  child: ChildProcess;
  /** Resolves with its exit code or signal. */
  ended: Promise<{ code: number | null; signal: string | null }>;
  stop(): Promise<void>;
  /** The end of its log, at most 20,000 characters. */
  logged(): string;
}

/** A first start makes a database on a busy machine, so this limit measures nothing. */
const readyTimeoutMs = 180_000;

/**
 * Starts `pierhead up` on a data directory and waits until it is ready.
 * @param program directory of the sources to run. Default: this tree.
 * @param onLog receives its standard output and standard error.
 * @returns undefined when it died before it was ready, because its start reached the fault point.
 */
export async function startServerProcess(
  dataDir: string,
  environment: Record<string, string>,
  { program = ".", onLog }: { program?: string; onLog?: (chunk: Buffer) => void } = {},
): Promise<ServerProcess | undefined> {
  const child = spawn(process.execPath, [path.resolve(program, "src/main.ts"), "up"], {
    env: {
      ...process.env,
      PIERHEAD_DATA_DIR: dataDir,
      PIERHEAD_LOG_LEVEL: "warn",
      NO_COLOR: "1",
      ...environment,
    },
    stdio: ["ignore", onLog === undefined ? "ignore" : "pipe", "pipe"],
  });
  for (const stream of [child.stdout, child.stderr]) if (onLog !== undefined) stream?.on("data", onLog);
  let output = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-20_000);
  });
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  const credentials = await waitUntilReady(
    dataDir,
    child,
    environment["PIERHEAD_FAULT_POINT"] !== undefined,
    () => output,
  );
  if (credentials === undefined) return undefined;
  return {
    url: credentials.url,
    apiKey: credentials.api_key,
    workspaceId: credentials.workspace_id,
    child,
    ended,
    logged: () => output,
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

async function waitUntilReady(dataDir: string, child: ChildProcess, mayDie: boolean, output: () => string) {
  const end = Date.now() + readyTimeoutMs;
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null) {
      if (mayDie && child.signalCode === "SIGKILL") return undefined;
      throw new Error(`the server ended before it was ready:\n${output()}`);
    }
    const credentials = await readCredentials(dataDir);
    if (credentials !== undefined && credentials.pid === child.pid) {
      const ready = await fetch(`${credentials.url}/ready`).catch(() => undefined);
      if (ready?.status === 200) return credentials;
    }
    if (Date.now() > end) throw new Error(`the server did not become ready:\n${output()}`);
    await sleep(25);
  }
}

async function readCredentials(dataDir: string) {
  try {
    const text = await readFile(path.join(dataDir, "credentials.json"), "utf8");
    return JSON.parse(text) as { url: string; api_key: string; workspace_id: string; pid: number };
  } catch {
    return undefined;
  }
}
