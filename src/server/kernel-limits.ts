import { readdirSync, readFileSync } from "node:fs";
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

/**
 * Returns the engine's bridges from which packets reach the loopback of this machine. An engine without its userland proxy makes them so, and
 * a build may send such packets, because it has the capability NET_RAW (docs/guides/docker.md).
 */
export function bridgesToLoopback(directory = "/proc/sys"): string[] {
  const devices = path.join(directory, "net", "ipv4", "conf");
  return listNames(devices)
    .filter((name) => /^(docker0|br-[0-9a-f]{12})$/.test(name))
    .filter((name) => readLimit(path.join(devices, name, "route_localnet")) === 1);
}

function listNames(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function readLimit(file: string): number | null {
  try {
    const text = readFileSync(file, "utf8").trim();
    return /^\d+$/.test(text) ? Number(text) : null;
  } catch {
    return null;
  }
}
