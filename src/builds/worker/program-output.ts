import { execFile } from "node:child_process";

/** What a program wrote. `hasFailed`: it could not start, ended with another code than 0, or was killed. */
export interface ProgramOutput {
  hasFailed: boolean;
  stdout: string;
  stderr: string;
}

/** More output than this ends the program as failed. */
const outputBytesMax = 16 << 20;

/**
 * Runs a program with empty stdin and only the given environment, and returns its output. Kills it after `timeoutMs`.
 * @throws the reason of `signal` when it aborts
 */
export async function programOutput(
  program: string,
  argv: readonly string[],
  options: { cwd?: string; env: Record<string, string | undefined>; timeoutMs: number; signal: AbortSignal },
): Promise<ProgramOutput> {
  const { timeoutMs: timeout, ...given } = options;
  const output = await new Promise<ProgramOutput>((resolve) => {
    const limits = { timeout, killSignal: "SIGKILL", maxBuffer: outputBytesMax } as const;
    const child = execFile(program, argv, { ...given, ...limits }, (error, stdout, stderr) =>
      resolve({ hasFailed: error !== null, stdout, stderr }),
    );
    child.stdin?.on("error", () => {}); // the program ended without reading it
    child.stdin?.end();
  });
  options.signal.throwIfAborted();
  return output;
}
