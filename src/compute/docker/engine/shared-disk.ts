import { statSync } from "node:fs";

/** Returns whether an engine keeps its data on the disk of a directory. False when this process cannot see the engine's data. */
export function sharesDisk(directory: string, engineDirectory: string): boolean {
  const device = deviceOf(engineDirectory);
  return device !== null && device === deviceOf(directory);
}

function deviceOf(directory: string): number | null {
  try {
    return statSync(directory).dev;
  } catch {
    return null;
  }
}
