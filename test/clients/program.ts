import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";

/** A public client, unmodified, whose connections are recorded. */
export interface PublicClient {
  /** Program and its first arguments. */
  command: string[];
  /** Variables that make the program record its connections, and restrict them to this machine. */
  watched: Record<string, string>;
}

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunningClient {
  /** All output so far. */
  readonly output: string;
  readonly ended: Promise<Ended>;
  /** Writes a last line of input. A client keeps running while it may receive more input. */
  answer(line: string): void;
  interrupt(): void;
}

export function startClient(
  client: PublicClient,
  args: string[],
  { cwd, env }: { cwd: string; env: Record<string, string> },
): RunningClient {
  const [program = "", ...first] = client.command;
  const child = spawn(program, [...first, ...args], { cwd, env: { ...env, ...client.watched }, stdio: "pipe" });
  const printed = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text: string) => {
      printed[name] += text;
    });
  }
  child.stdin.on("error", () => {}); // It may exit before it has read its input.
  return {
    get output() {
      return printed.stdout + printed.stderr;
    },
    ended: endOf(child).then((code) => ({ code, ...printed })),
    answer: (line) => void child.stdin.end(line),
    interrupt: () => void child.kill("SIGINT"),
  };
}

async function endOf(child: ChildProcess): Promise<number | null> {
  const [code] = (await once(child, "close")) as [number | null];
  return code;
}

/** Returns each host that a watched client connected to or resolved once: `host:port`. */
export async function connectionsIn(connectionsFile: string): Promise<string[]> {
  const text = await readFile(connectionsFile, "utf8").catch(() => "");
  return [...new Set(text.split("\n").filter((line) => line !== ""))];
}
