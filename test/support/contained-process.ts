import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync, writeSync } from "node:fs";

/** Set in the first process of the namespaces that `runContained` creates. */
const insideVariable = "PIERHEAD_TEST_CONTAINED";

/** Exists on every system. For a contained program it is a separate file system in memory. */
export const containedDirectory = "/mnt";

export const containedSkipped =
  "SKIPPED contained programs: mount and process namespaces need Linux, root, unshare and setpriv";

/**
 * A program in its own namespaces: it sees only its own processes, and `containedDirectory` is a file system that it can
 * fill. When it or its parent ends for any reason, the kernel kills all processes it started, and the file system disappears
 * with the last of them. Nothing needs cleanup.
 */
export interface Contained {
  child: ChildProcess;
  /** Returns a path of that file system as this process sees it; undefined before the mount and after the end. */
  pathOf(inside: string): string | undefined;
}

/** Returns whether this process may create such namespaces. */
export function canContain(): boolean {
  const isRoot = process.platform === "linux" && process.getuid?.() === 0;
  return isRoot && spawnSync("setpriv", ["--", "unshare", ...namespaces, "true"]).status === 0;
}

const namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"];

/** Runs a file of this project as the first process in new namespaces. The file must call `enterContained` first. */
export function runContained(
  file: string,
  args: string[],
  options: { environment?: NodeJS.ProcessEnv; wrapper?: string[]; stdio?: "inherit" | "pipe" } = {},
): Contained {
  const program = [...(options.wrapper ?? []), process.execPath, file, ...args];
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", "unshare", ...namespaces, ...program], {
    env: { ...process.env, ...options.environment, [insideVariable]: "1" },
    stdio: ["ignore", options.stdio ?? "pipe", options.stdio ?? "pipe"],
  });
  return {
    child,
    pathOf(inside) {
      const first = firstChildOf(child.pid);
      const root = first === undefined ? undefined : `/proc/${first}/root`;
      return root !== undefined && existsSync(`${root}${inside}`) ? `${root}${inside}` : undefined;
    },
  };
}

export const isContained = () => process.env[insideVariable] === "1";

/**
 * Mounts the separate file system. A contained program calls it first.
 * @param size size of the file system in the notation of tmpfs: `64m`.
 */
export function enterContained(size: string): void {
  const mounted = spawnSync("mount", [
    "-t",
    "tmpfs",
    "-o",
    `size=${size},mode=1777`,
    "pierhead-test",
    containedDirectory,
  ]);
  if (mounted.status !== 0) throw new Error(`cannot mount a separate file system: ${mounted.stderr}`);
  process.env["TMPDIR"] = containedDirectory;
}

/** Appends to a file until the disk is full to the last byte. Call it again after space was freed. */
export function fillDisk(file: string): void {
  const handle = openSync(file, "a");
  try {
    for (let bytes = 1024 * 1024; bytes >= 1; bytes = Math.floor(bytes / 2)) while (isWritten(handle, bytes));
  } finally {
    closeSync(handle);
  }
}

function isWritten(handle: number, bytes: number): boolean {
  try {
    return writeSync(handle, Buffer.alloc(bytes)) === bytes;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOSPC") return false;
    throw error;
  }
}

function firstChildOf(pid: number | undefined): number | undefined {
  try {
    const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
    return first ? Number(first) : undefined;
  } catch {
    return undefined;
  }
}
