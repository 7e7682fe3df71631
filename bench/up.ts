import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { toBeEnded } from "./endings.ts";

/** The installed program, made by `npm run build`. */
export const program = path.resolve("dist/main.js");

export interface Up {
  child: ChildProcess;
  url: string;
  key: string;
  readyMs: number;
  stop(): Promise<void>;
}

/** Starts the server as a new user does, in its own directory unless one is given. */
export async function startUp(environment: Record<string, string>): Promise<Up> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-bench-up-"));
  const startedAt = performance.now();
  const child = spawn(process.execPath, [program, "up"], {
    env: { ...process.env, PORT: "0", PIERHEAD_DATA_DIR: dataDir, PIERHEAD_LOG_LEVEL: "error", ...environment },
    stdio: "ignore",
  });
  const ended = once(child, "exit");
  const stop = toBeEnded(async () => {
    child.kill("SIGTERM");
    await ended;
    await rm(dataDir, { recursive: true, force: true, maxRetries: 3 });
  });
  const file = path.join(environment["PIERHEAD_DATA_DIR"] ?? dataDir, "credentials.json");
  for (;;) {
    if (child.exitCode !== null) throw new Error(`up ended with exit code ${child.exitCode}`);
    const [url, key] = credentialsIn(file);
    if (url !== undefined && key !== undefined && (await isReady(url))) {
      return { child, url, key, readyMs: performance.now() - startedAt, stop };
    }
    await sleep(10);
  }
}

/** Returns undefined until the file is complete. */
function credentialsIn(file: string): [url?: string, key?: string] {
  try {
    const { url, api_key: key } = JSON.parse(readFileSync(file, "utf8")) as { url: string; api_key: string };
    return [url, key];
  } catch {
    return [];
  }
}

const isReady = (url: string) =>
  fetch(`${url}/ready`).then(
    ({ status }) => status === 200,
    () => false,
  );

/** Available on Linux only. */
export function rssMbOf({ pid }: ChildProcess): number {
  const status = process.platform === "linux" ? readFileSync(`/proc/${pid}/status`, "utf8") : "";
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) / 1_024;
}
