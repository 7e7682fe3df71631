import { readdirSync } from "node:fs";
import path from "node:path";

export const fakeTimeSkipped = "SKIPPED clocks that jump: libfaketime is not installed (Debian: faketime)";

/** Returns the path of the library that gives a program another time; undefined if it is not installed. */
export function findFakeTime(): string | undefined {
  const libraries = "/usr/lib";
  const found = readdirSync(libraries, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name.includes("-linux-"))
    .map(({ name }) => path.join(libraries, name, "faketime"))
    .find((directory) => readdirOrNone(directory).includes("libfaketimeMT.so.1"));
  return found && path.join(found, "libfaketimeMT.so.1");
}

/**
 * Returns the environment of a program whose clock differs from the machine's by the offset in a file (`+3600`, in seconds).
 * Time otherwise passes normally, as after an administrator sets the clock.
 */
export function fakeTimeEnvironment(library: string, offsetFile: string): Record<string, string> {
  return {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: offsetFile,
    ...{ FAKETIME_NO_CACHE: "1", FAKETIME_DONT_FAKE_MONOTONIC: "1", DONT_FAKE_MONOTONIC: "1", NO_FAKE_STAT: "1" },
  };
}

function readdirOrNone(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
