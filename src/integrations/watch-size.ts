import { readdir, stat } from "node:fs/promises";
import path from "node:path";

const watchIntervalMs = 200;

/** Measures a directory with few files until it exceeds the limit, and then calls `onExceeded`. The caller clears the interval. */
export function watchSize(directory: string, bytesMax: number, onExceeded: () => void): NodeJS.Timeout {
  const measure = async () => {
    const names = await readdir(directory, { recursive: true });
    const sizes = await Promise.allSettled(names.map(async (name) => (await stat(path.join(directory, name))).size));
    const bytes = sizes.reduce((sum, one) => sum + (one.status === "fulfilled" ? one.value : 0), 0);
    if (bytes > bytesMax) onExceeded();
  };
  return setInterval(() => void measure().catch(() => {}), watchIntervalMs);
}
