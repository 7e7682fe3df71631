import { readFileSync } from "node:fs";
import path from "node:path";

/**
 * Limits of the kernel that all containers of a machine share, or all programs with the same user number, with values that an agent does
 * not reach before its memory limit. The engine has no setting for them (docs/guides/docker.md).
 */
const wanted: Record<string, number> = {
  "fs.epoll.max_user_watches": 1_000_000_000,
  "fs.inotify.max_user_instances": 1_000_000,
  "net.ipv4.neigh.default.gc_thresh3": 1_048_576,
};

/** Returns the limits that are lower, each with its value. Ignores those that this system does not have. */
export function lowKernelLimits(directory = "/proc/sys"): string[] {
  return Object.entries(wanted).flatMap(([name, least]) => {
    const value = readLimit(path.join(directory, ...name.split(".")));
    return value !== null && value < least ? [`${name} is ${value}, not ${least}`] : [];
  });
}

function readLimit(file: string): number | null {
  try {
    const text = readFileSync(file, "utf8").trim();
    return /^\d+$/.test(text) ? Number(text) : null;
  } catch {
    return null;
  }
}
