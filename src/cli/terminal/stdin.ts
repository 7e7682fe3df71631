import type { CliContext } from "../context.ts";
import { usageFailure } from "../failure.ts";

/**
 * Reads stdin to its end. Ctrl-C stops the read, which would otherwise wait until the terminal or the pipe is closed. The modules
 * are imported here, because they would add 2 ms to the start of every command.
 */
export async function readStdin({ stdin, signal }: Pick<CliContext, "stdin" | "signal">): Promise<string> {
  const [{ addAbortSignal }, { text }] = await Promise.all([import("node:stream"), import("node:stream/consumers")]);
  // A second read would return an empty string, which is also a valid value.
  if (stdin.readableEnded) throw usageFailure("stdin was read already. It can supply the key or a value, not both.");
  try {
    return await text(addAbortSignal(signal, stdin));
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}

/** Reads a secret from a file or a pipe. A terminal that takes no prompt would show what is typed. */
export async function readSecret(context: Pick<CliContext, "stdin" | "signal">): Promise<string> {
  if (context.stdin.isTTY !== true) return readStdin(context);
  throw usageFailure("This terminal would show the secret while you type it.", "Send it on stdin: < FILE");
}
