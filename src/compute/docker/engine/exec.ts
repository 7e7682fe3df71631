import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
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
