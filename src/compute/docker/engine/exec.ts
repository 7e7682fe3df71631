import { randomUUID } from "node:crypto";
import { PassThrough, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { drained } from "../../../base/drained.ts";
import type { ExecRequest, ExecSession } from "../../compute.ts";
import { killScript } from "../../kill-script.ts";
import type { Engine } from "./engine.ts";
import { FrameSplitter } from "./streams.ts";

/** Only the end of a program's error output is kept. */
const errorCharsMax = 8_000;

/**
 * Runs a program in a container, without a shell and without input, and waits until it exits.
 * @param options.env variables in addition to those of the container
 * @param options.output receives the standard output of the program and is closed when the program exits
 * @returns its exit code and the end of its error output
 */
export async function runInContainer(
  engine: Engine,
  containerId: string,
  options: { argv: string[]; env: Record<string, string>; output: Writable; signal: AbortSignal },
): Promise<{ exitCode: number; errorOutput: string }> {
  const { argv, env, output, signal } = options;
  const { Id } = await engine.call<{ Id: string }>("POST", `/containers/${containerId}/exec`, {
    body: { Cmd: argv, Env: Object.entries(env).map(([name, value]) => `${name}=${value}`), ...attached },
    signal,
  });
  const stream = await engine.stream("POST", `/exec/${Id}/start`, { body: { Detach: false, Tty: false }, signal });
  const splitter = new FrameSplitter();
  let errorOutput = "";
  await pipeline(
    stream,
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        for (const { stream: from, bytes } of splitter.split(chunk)) {
          if (from === "stdout") yield bytes;
          else errorOutput = (errorOutput + bytes.toString("utf8")).slice(-errorCharsMax);
        }
      }
    },
    output,
    { signal },
  );
  const { ExitCode } = await engine.call<{ ExitCode: number | null }>("GET", `/exec/${Id}/json`, { signal });
  return { exitCode: ExitCode ?? 1, errorOutput: errorOutput.trim() };
}

const attached = { AttachStdout: true, AttachStderr: true };

/**
 * Starts a program in a container with input and, if asked for, a terminal. The engine has no call that ends a program. `kill` lets
 * the shell of the container end everything that has the mark of this session in its environment.
 */
export async function openExec(
  engine: Engine,
  containerId: string,
  { argv, terminal }: ExecRequest,
): Promise<ExecSession> {
  const mark = `PIERHEAD_EXEC_ID=${randomUUID()}`;
  const size = terminal === null ? {} : { ConsoleSize: [terminal.rows, terminal.columns] };
  const { Id: id } = await engine.call<{ Id: string }>("POST", `/containers/${containerId}/exec`, {
    body: {
      ...{ Cmd: argv, AttachStdin: true, ...attached, Tty: terminal !== null, ...size },
      Env: [mark, ...(terminal === null ? [] : ["TERM=xterm-256color"])],
    },
  });
  const socket = await engine.hijack(`/exec/${id}/start`, { Detach: false, Tty: terminal !== null, ...size });
  socket.on("error", () => socket.destroy());
  const [output, errors] = [new PassThrough(), terminal === null ? new PassThrough() : null];
  const copied = copyOutput(socket, output, errors).catch(() => {});
  let killing: Promise<void> | undefined;
  const kill = async () => {
    // Interrupt and end of input, as a user would type them, for containers without a shell.
    if (socket.writable) socket.end(terminal === null ? "" : "\u0003\u0004");
    await killMarked(engine, containerId, mark).catch(() => {});
    for (const stream of [socket, output, errors]) stream?.destroy();
  };
  const resize = async ({ columns, rows }: { columns: number; rows: number }) => {
    await engine.call("POST", `/exec/${id}/resize`, { query: { h: rows, w: columns } }).catch(() => {});
  };
  // Engines before API 1.42 ignore `ConsoleSize`.
  if (terminal !== null) await resize(terminal);
  return {
    hasTerminal: terminal !== null,
    input: socket,
    output,
    errors,
    resize,
    ended: copied.then(() => {
      output.end();
      errors?.end();
      return killing === undefined ? exitCodeOf(engine, id) : killedCode;
    }),
    kill() {
      killing ??= kill();
      return killing;
    },
  };
}

/** Exit code of a program that was killed, as a shell gives it. */
const killedCode = 137;

/** The engine records the exit code shortly after it has closed the output. */
const exitTimeoutMs = 10_000;

async function exitCodeOf(engine: Engine, id: string): Promise<number> {
  const endMs = performance.now() + exitTimeoutMs;
  for (;;) {
    const { Running, ExitCode } = await engine.call<{ Running: boolean; ExitCode: number | null }>(
      "GET",
      `/exec/${id}/json`,
    );
    if (!Running && ExitCode !== null) return ExitCode;
    // It closed its output and runs on.
    if (performance.now() > endMs) return killedCode;
    await sleep(20);
  }
}

const killTimeoutMs = 10_000;

/** Kills what has this in its environment, if the image has a shell. */
async function killMarked(engine: Engine, containerId: string, mark: string): Promise<void> {
  await runInContainer(engine, containerId, {
    argv: ["sh", "-c", killScript, "sh", mark],
    env: {},
    output: new Writable({ write: (_chunk, _encoding, done) => done() }),
    signal: AbortSignal.timeout(killTimeoutMs),
  });
}

async function copyOutput(from: AsyncIterable<Buffer>, output: PassThrough, errors: PassThrough | null): Promise<void> {
  const splitter = new FrameSplitter();
  for await (const chunk of from) {
    const frames = errors === null ? [{ stream: "stdout", bytes: chunk }] : splitter.split(chunk);
    for (const { stream, bytes } of frames) {
      const to = stream === "stderr" && errors !== null ? errors : output;
      if (to.destroyed) return;
      if (!to.write(bytes)) await drained(to);
    }
  }
}
