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
  /** A stream: what never ends. */
  stdin?: string | Readable;
  /** As if all three streams were a terminal. */
  isTTY?: boolean;
  signal?: AbortSignal;
  startServer?: StartServer;
  /** Sees stderr while it is written. */
  onStderr?: (text: string) => void;
  /** Sees stdout while it is written. */
  onStdout?: (text: string) => void;
}

/** One run of the command line in this process, with streams that remember. */
export async function runCli(argv: string[], options: RunOptions = {}): Promise<Ran> {
  const written = { stdout: "", stderr: "" };
  const stream = (name: keyof typeof written) => {
    const writable: Writable & { isTTY?: boolean } = new Writable({
      write(chunk, _, done) {
        written[name] += String(chunk);
        const seen = name === "stderr" ? options.onStderr : options.onStdout;
        seen?.(written[name]);
        done();
      },
    });
    if (options.isTTY) writable.isTTY = true;
    return writable;
  };
  const stdin: Readable & { isTTY?: boolean } = options.isTTY
    ? new PassThrough()
    : typeof options.stdin === "object"
      ? options.stdin
      : Readable.from([options.stdin ?? ""]);
  if (options.isTTY) stdin.isTTY = true;
  const cli = createCli({
    argv,
    env: { PIERHEAD_DATA_DIR: path.join(tmpdir(), "pierhead-no-such-data-dir"), ...options.env },
    cwd: options.cwd ?? tmpdir(),
    stdin,
    stdout: stream("stdout"),
    stderr: stream("stderr"),
    signal: options.signal ?? new AbortController().signal,
    startServer: options.startServer ?? (() => Promise.reject(new Error("no server in this test"))),
    startListener: () => Promise.reject(new Error("no listener in this test")),
    restore: () => Promise.reject(new Error("no database in this test")),
    migrate: () => Promise.reject(new Error("no database in this test")),
  });
  return { code: await cli.run(), ...written };
}

/** A directory with these files, removed afterwards. */
export async function createDirectory(files: Record<string, string> = {}) {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-cli-"));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(directory, name)), { recursive: true });
    await writeFile(path.join(directory, name), text);
  }
  return { directory, [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) };
}
