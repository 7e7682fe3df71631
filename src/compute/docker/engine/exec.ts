import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Engine } from "./engine.ts";
import { FrameSplitter } from "./streams.ts";

/** Of what a program says before it fails, the end is of use. */
const errorCharsMax = 8_000;

/**
 * Runs a program in a container and waits for its end. There is no shell, and no input.
 * @param options.env beside that of the container.
 * @param options.output gets what the program prints, and is ended.
 * @returns its exit code, and the end of what it complained of.
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
