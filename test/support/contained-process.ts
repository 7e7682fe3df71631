import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync, writeSync } from "node:fs";

/** Says that this process is the first one of a world that `runContained` made. */
const insideVariable = "PIERHEAD_TEST_CONTAINED";

/** Every system has this directory; inside, it is a file system of the world's own, in memory. */
export const containedDirectory = "/mnt";

export const containedSkipped =
  "SKIPPED worlds of their own: mount and process namespaces need Linux, root, unshare and setpriv";

/**
 * A program in a world of its own: it sees its own processes only, and `containedDirectory` is a file system that it can
 * fill. However it ends, and however its parent ends, all that it started is killed by the kernel, and the file system
 * goes with the last of them: nothing has to be cleaned up.
 */
export interface Contained {
  child: ChildProcess;
  /** How this process reaches a path of that file system; undefined before the world is made, or after its end. */
  pathOf(inside: string): string | undefined;
}

/** Whether this machine lets this process make such a world. */
export function canContain(): boolean {
  const isRoot = process.platform === "linux" && process.getuid?.() === 0;
  return isRoot && spawnSync("setpriv", ["--", "unshare", ...namespaces, "true"]).status === 0;
}

const namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"];

/** Runs a file of ours as the first process of a new world; it calls `enterContained` before anything else. */
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
 * First thing in a world of its own.
 * @param size of the file system, as tmpfs takes it: `64m`.
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
  if (mounted.status !== 0) throw new Error(`no file system of its own: ${mounted.stderr}`);
  process.env["TMPDIR"] = containedDirectory;
}

/** Writes a file until not one byte more goes onto the disk; again when something was freed since. */
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
