import type { Writable } from "node:stream";

/** Resolves when a stream takes more, or is closed. */
export function drained(stream: Writable): Promise<void> {
  if (stream.closed) return Promise.resolve();
  return new Promise((resolve) => {
    const settle = () => {
      for (const event of ["drain", "close"]) stream.off(event, settle);
      resolve();
    };
    for (const event of ["drain", "close"]) stream.on(event, settle);
  });
}
