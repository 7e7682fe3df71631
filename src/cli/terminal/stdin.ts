import type { CliContext } from "../context.ts";
import { usageFailure } from "../failure.ts";

/**
 * All that comes on stdin. Ctrl-C ends the wait for it, which would else go on for as long as a person, or the other side
 * of a pipe, keeps it open. What it needs is loaded here: 2 ms of the start of every command.
 */
export async function readStdin({ stdin, signal }: Pick<CliContext, "stdin" | "signal">): Promise<string> {
  const [{ addAbortSignal }, { text }] = await Promise.all([import("node:stream"), import("node:stream/consumers")]);
  // A second reader would be given nothing, which is a value, too.
  if (stdin.readableEnded) throw usageFailure("stdin was read already: a key or a value comes from it, not both.");
  try {
    return await text(addAbortSignal(signal, stdin));
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}
