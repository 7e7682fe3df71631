import { readFileSync } from "node:fs";

/**
 * Returns how many files and sockets this process may have open at the same time. Node raises the limit as far as the system allows.
 * Infinity: there is no limit, or the system does not tell.
 */
export function openFilesMax(): number {
  try {
    return Number(
      /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? Number.POSITIVE_INFINITY,
    );
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
