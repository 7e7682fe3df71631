import { type ChildProcess, spawn } from "node:child_process";
import path from "node:path";
import { createInterface } from "node:readline";

/** A `pierhead listener` in a separate process. */
export interface ListenerProgram {
  url: string;
  child: ChildProcess;
  logged(): string;
  stop(): Promise<void>;
}

/** Starts the program. @throws Error with its log if it ends before it is ready. */
export async function startListenerProgram(environment: Record<string, string>): Promise<ListenerProgram> {
  const child = spawn(process.execPath, [path.resolve("src/main.ts"), "listener", "--port", "0"], {
    env: { PATH: process.env["PATH"], NO_COLOR: "1", PIERHEAD_LOG_LEVEL: "info", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stderr.on("data", (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-20_000);
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const firstLine = new Promise<string>((resolve) => createInterface(child.stdout).once("line", resolve));
  const url = await Promise.race([firstLine, ended]);
  if (url === undefined) throw new Error(`the listener ended before it ran:\n${output}`);
  return {
    url,
    child,
    logged: () => output,
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
