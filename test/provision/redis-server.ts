import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { freePort } from "../support/free-port.ts";

/** Path of the program; undefined: it is not installed. */
export const redisProgram = ["/usr/bin/redis-server", "/usr/local/bin/redis-server"].find((file) => {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
});

/** Why tests with Redis are skipped; undefined: it is installed. */
export const redisSkipped = redisProgram === undefined ? "redis-server is not installed" : undefined;

export interface RedisServer {
  url: string;
  /** Kills it, and starts it again without its data. */
  crash(): Promise<void>;
  stop(): Promise<void>;
}

/** A Redis for one test, on loopback, that writes nothing to disk. */
export async function startRedisServer(): Promise<RedisServer> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-redis-"));
  const port = await freePort();
  const flags = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory];
  let child = await startChild(flags);
  const end = async () => {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  };
  return {
    url: `redis://127.0.0.1:${port}/0`,
    async crash() {
      await end();
      child = await startChild(flags);
    },
    async stop() {
      await end();
      await rm(directory, { recursive: true });
    },
  };
}

async function startChild(flags: string[]): Promise<ChildProcess> {
  const child: ChildProcess = spawn(redisProgram as string, flags, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const chunk of child.stdout as NodeJS.ReadableStream) {
    if (String(chunk).includes("Ready to accept connections")) break;
  }
  return child;
}
