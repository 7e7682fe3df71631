import { once } from "node:events";
import { PassThrough, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ExecRequest, ExecSession } from "../../compute.ts";
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
 * Starts a program in a container with input and, if asked for, a terminal. The engine has no call that ends a program, so `kill`
 * closes its input and its terminal; a program that ignores both runs until its container stops.
 */
export async function openExec(
  engine: Engine,
  containerId: string,
  { argv, terminal }: ExecRequest,
): Promise<ExecSession> {
  const size = terminal === null ? {} : { ConsoleSize: [terminal.rows, terminal.columns] };
  const { Id: id } = await engine.call<{ Id: string }>("POST", `/containers/${containerId}/exec`, {
    body: {
      ...{ Cmd: argv, AttachStdin: true, ...attached, Tty: terminal !== null, ...size },
      ...(terminal !== null && { Env: ["TERM=xterm-256color"] }),
    },
  });
  const socket = await engine.hijack(`/exec/${id}/start`, { Detach: false, Tty: terminal !== null, ...size });
  socket.on("error", () => socket.destroy());
  const [output, errors] = [new PassThrough(), terminal === null ? new PassThrough() : null];
  const copied = copyOutput(socket, output, errors).finally(() => {
    output.end();
    errors?.end();
  });
  copied.catch(() => {});
  return {
    hasTerminal: terminal !== null,
    input: socket,
    output,
    errors,
    resize: ({ columns, rows }) =>
      void engine.call("POST", `/exec/${id}/resize`, { query: { h: rows, w: columns } }).catch(() => {}),
    ended: copied
      .catch(() => {})
      .then(() => engine.call<{ ExitCode: number | null }>("GET", `/exec/${id}/json`))
      .then(({ ExitCode }) => ExitCode ?? 1),
    async kill() {
      if (socket.destroyed) return;
      // Interrupt and end of input, as a user would type them.
      if (terminal !== null) socket.write("\u0003\u0004");
      socket.destroySoon();
    },
  };
}

async function copyOutput(from: AsyncIterable<Buffer>, output: PassThrough, errors: PassThrough | null): Promise<void> {
  const splitter = new FrameSplitter();
  for await (const chunk of from) {
    const frames = errors === null ? [{ stream: "stdout", bytes: chunk }] : splitter.split(chunk);
    for (const { stream, bytes } of frames) {
      const to = stream === "stderr" && errors !== null ? errors : output;
      if (!to.write(bytes)) await once(to, "drain");
    }
  }
}
