import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough, Readable, Writable } from "node:stream";
import { createCli } from "../../src/cli/cli.ts";
import type { Environment, StartServer } from "../../src/cli/context.ts";

export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  env?: Environment;
  cwd?: string;
  /** Text that ends, or a stream that may stay open. */
  stdin?: string | Readable;
  /** Pretends that all three streams are a terminal. */
  isTTY?: boolean;
  /** Width of that terminal. */
  columns?: number;
  signal?: AbortSignal;
  startServer?: StartServer;
  /** Called with each write to stderr. */
  onStderr?: (text: string) => void;
  /** Called with each write to stdout. */
  onStdout?: (text: string) => void;
}

/** Options of a `shell` in a terminal of 93 columns, in which a line is typed as soon as there is a prompt. */
export function typing(line: string): RunOptions {
  const stdin = new PassThrough();
  let isTyped = false;
  const onStdout = () => {
    // There may be any prompt: a shell reads what was typed before it.
    if (!isTyped) stdin.write(`${line}\n`);
    isTyped = true;
  };
  return { isTTY: true, stdin, columns: 93, onStdout };
}

/** Runs a command line in this process and records its streams. */
export async function runCli(argv: string[], options: RunOptions = {}): Promise<Ran> {
  const written = { stdout: "", stderr: "" };
  const stream = (name: keyof typeof written) => {
    const writable: Writable & { isTTY?: boolean; columns?: number } = new Writable({
      write(chunk, _, done) {
        written[name] += String(chunk);
        const seen = name === "stderr" ? options.onStderr : options.onStdout;
        seen?.(written[name]);
        done();
      },
    });
    if (options.isTTY) writable.isTTY = true;
    if (options.columns !== undefined) writable.columns = options.columns;
    return writable;
  };
  const stdin: Readable & { isTTY?: boolean } =
    options.isTTY && typeof options.stdin !== "object"
      ? new PassThrough()
      : typeof options.stdin === "object"
        ? options.stdin
        : Readable.from([options.stdin ?? ""]);
  if (options.isTTY) stdin.isTTY = true;
  const cli = createCli({
    argv,
    env: {
      PIERHEAD_DATA_DIR: path.join(tmpdir(), "pierhead-no-such-data-dir"),
      // Nothing can be stored there.
      PIERHEAD_CONFIG_DIR: path.join("/dev/null", "config"),
      ...options.env,
    },
    cwd: options.cwd ?? tmpdir(),
    stdin,
    stdout: stream("stdout"),
    stderr: stream("stderr"),
    signal: options.signal ?? new AbortController().signal,
    startServer: options.startServer ?? (() => Promise.reject(new Error("no server in this test"))),
    startListener: () => Promise.reject(new Error("no listener in this test")),
    startClusterGateway: () => Promise.reject(new Error("no gateway in this test")),
    restore: () => Promise.reject(new Error("no database in this test")),
    migrate: () => Promise.reject(new Error("no database in this test")),
  });
  return { code: await cli.run(), ...written };
}

/** Creates a directory with these files, removed at disposal. */
export async function createDirectory(files: Record<string, string> = {}) {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-cli-"));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(directory, name)), { recursive: true });
    await writeFile(path.join(directory, name), text);
  }
  return { directory, [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) };
}
