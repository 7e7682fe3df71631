import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import type { Client } from "../../src/client/client.ts";

const run = promisify(execFile);

/**
 * The environment of a user: without settings of this clone, and with the Node of the tests first, because the machine may bring an
 * older one than Pierhead needs.
 */
export const userEnv: NodeJS.ProcessEnv = {
  ...process.env,
  PATH: [path.dirname(process.execPath), process.env["PATH"]].join(path.delimiter),
  npm_config_update_notifier: "false",
};
for (const name of Object.keys(userEnv)) if (/^(PIERHEAD_|NODE_COMPILE_CACHE)/.test(name)) delete userEnv[name];

export interface Pack {
  filename: string;
  size: number;
  files: { path: string }[];
}

/** Packs a directory as `npm publish` would upload it. */
export async function pack(directory: string, destination: string): Promise<Pack> {
  const argv = ["pack", "--json", "--ignore-scripts", "--pack-destination", destination];
  const { stdout } = await run("npm", argv, { cwd: directory, env: userEnv, maxBuffer: 1e8 });
  // Newer versions of npm print an object by package name instead of an array.
  const [packed] = Object.values(JSON.parse(stdout)) as [Pack];
  return packed;
}

/** Installs a packed package as a user would, into an empty directory. */
export async function installPacked(tarball: string, prefix: string): Promise<void> {
  const argv = ["install", "--prefix", prefix, "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", tarball];
  await run("npm", argv, { env: userEnv, maxBuffer: 1e8 });
}

export interface PackedServer extends AsyncDisposable {
  url: string;
  apiKey: string;
  dataDir: string;
  /** The client of the installed package. */
  client: Client;
  /** The installed program, for Node. */
  program: string;
}

/** Packs this clone, installs the package outside of it, and runs `pierhead up` from there. */
export async function startPackedServer(environment: Record<string, string>): Promise<PackedServer> {
  const folder = await mkdtemp(path.join(tmpdir(), "pierhead-packed-"));
  try {
    const { filename } = await pack(process.cwd(), folder);
    const app = path.join(folder, "app");
    await installPacked(path.join(folder, filename), app);
    const installed = path.join(app, "node_modules/pierhead/dist");
    const program = path.join(installed, "main.js");
    const dataDir = path.join(folder, "data");
    const argv = [program, "up", "--port", "0", "--json", "--stop-agents-on-exit", "--data-dir", dataDir];
    const env = { ...userEnv, HOME: folder, PIERHEAD_LOG_LEVEL: "warn", ...environment };
    const up = spawn(process.execPath, argv, { cwd: app, env, stdio: ["ignore", "pipe", "pipe"] });
    const { url, credentials_file } = JSON.parse(await firstOutput(up));
    const { api_key: apiKey } = JSON.parse(await readFile(credentials_file, "utf8"));
    const { createClient } = await import(path.join(installed, "client/client.js"));
    return {
      ...{ url, apiKey, dataDir, program },
      client: createClient({ baseUrl: url, apiKey }),
      async [Symbol.asyncDispose]() {
        const ended = once(up, "close");
        up.kill("SIGINT");
        await ended;
        await rm(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Returns the first output of a program. @throws Error with its messages if it ends without one. */
export async function firstOutput(child: ChildProcess): Promise<string> {
  let said = "";
  child.stderr?.on("data", (chunk) => (said += String(chunk)));
  return new Promise((resolve, reject) => {
    child.stdout?.once("data", (chunk) => resolve(String(chunk)));
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`the program ended with ${code}: ${said}`)));
  });
}
