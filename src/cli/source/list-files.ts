import { execFile } from "node:child_process";
import type { Dirent, Stats } from "node:fs";
import { lstat, readdir, readFile, realpath } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { createIgnoreRules, type IgnoreRules } from "../../domain/ignore-rules.ts";
import type { Environment } from "../context.ts";
import { isWithin } from "./repository.ts";

/** Files of a source. */
export interface FileList {
  /** Regular files, relative to the root with `/`, in byte order. */
  files: string[];
  sizeBytes: number;
  /** Excluded files that a user may expect: `.env`, links to files outside of the root. */
  leftOut: string[];
  /** Whether git listed the files. Otherwise the directory was walked. */
  fromGit: boolean;
}

/** Directories that are never packed: output of tools, and the git history. Other clients of this API use the same list. */
const neverPacked = new Set(["__pycache__", ".git", ".venv", "venv", "node_modules", ".tox", ".mypy_cache"]);

/**
 * Lists the source files in a directory. In a git repository these are the tracked files and the new files that git does not ignore.
 * Elsewhere these are all files that .gitignore does not exclude. Both lists omit files that .dockerignore excludes, tool directories,
 * and untracked `.env` files, because archives are not encrypted. Variables are sent with `--env-from`.
 *
 * @param options.buildFiles Files that the build reads, the configuration first. They are packed even if .dockerignore excludes them,
 *   because it applies only to images and names the Dockerfile in many projects.
 */
export async function listFiles(
  root: string,
  signal: AbortSignal,
  { environment, buildFiles = [] }: { environment?: Environment | undefined; buildFiles?: readonly string[] } = {},
): Promise<FileList> {
  const dockerRules = createIgnoreRules();
  await readRules(dockerRules, root, "", ".dockerignore");
  const git = await gitFiles(root, signal, environment);
  const isSkipped = (directory: string) =>
    dockerRules.ignoresAllBelow(directory) && !buildFiles.some((file) => file.startsWith(`${directory}/`));
  const candidates = git?.files ?? (await walk(root, isSkipped, signal));
  const isExcluded = leavesOutProject(candidates, dockerRules, buildFiles)
    ? () => false
    : (file: string) => dockerRules.ignoresBelow(file, false) && !buildFiles.includes(file);
  const kept: string[] = [];
  const leftOut: string[] = [];
  const isInside = insideOf(root);
  let sizeBytes = 0;
  for (const file of candidates) {
    if (isNeverPacked(file)) continue;
    if (isExcluded(file)) continue;
    const found = await findFile(root, file, isInside);
    if (found === "gone" && !isInvalidUtf8(file)) continue;
    if (found === "gone" || found === "unusable" || (isEnvFile(file) && !git?.tracked.has(file))) leftOut.push(file);
    else {
      kept.push(file);
      sizeBytes += found.size;
    }
  }
  return { files: kept.sort(byBytes), sizeBytes, leftOut, fromGit: git !== undefined };
}

/** Whether the rules for images exclude all of a project below their directory. They are then those of another image. */
function leavesOutProject(
  candidates: readonly string[],
  rules: IgnoreRules,
  [config = "", ...others]: readonly string[],
): boolean {
  const project = path.posix.dirname(config);
  if (project === ".") return false;
  const files = candidates.filter(
    (file) => file.startsWith(`${project}/`) && file !== config && !others.includes(file),
  );
  return files.length > 0 && files.every((file) => rules.ignoresBelow(file, false));
}

const run = promisify(execFile);

/**
 * Variables that git sets for hooks. With them git treats any directory as the root of the repository and ignores the rules of
 * parent directories.
 */
const hookVariables = ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"];

/** Returns the files from git, or undefined if git is missing or the directory belongs to no repository. */
async function gitFiles(
  root: string,
  signal: AbortSignal,
  environment: Environment | undefined,
): Promise<{ files: string[]; tracked: Set<string> } | undefined> {
  const env = environment && { ...environment, ...Object.fromEntries(hookVariables.map((name) => [name, undefined])) };
  const list = async (...args: string[]) => {
    const command = ["-c", "core.fsmonitor=false", "-C", root, "ls-files", "-z", ...args];
    const { stdout } = await run("git", command, { maxBuffer: 256 * 1024 * 1024, signal, env });
    // In a submodule that is not checked out, git lists the directory itself.
    return stdout.split("\0").filter((file) => file !== "" && file !== "./");
  };
  try {
    const tracked = await list("--cached");
    const others = await list("--others", "--exclude-standard");
    if (tracked.length + others.length === 0) return undefined; // an ignored directory of a repository
    const files: string[] = [];
    const isInside = insideOf(root);
    for (const file of new Set([...tracked, ...others])) {
      files.push(...(await withNested({ root, file, isInside }, signal, environment)));
    }
    return { files, tracked: new Set(tracked) };
  } catch (error) {
    signal.throwIfAborted();
    if ((error as { code?: unknown }).code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER") throw error;
    return undefined;
  }
}

/** Returns the files of a submodule or nested repository, which git lists only as a directory. */
async function withNested(
  { root, file, isInside }: { root: string; file: string; isInside: InsideCheck },
  signal: AbortSignal,
  environment: Environment | undefined,
): Promise<string[]> {
  const directory = file.replace(/\/$/, "");
  const isDirectory = (await lstat(path.join(root, directory)).catch(() => undefined))?.isDirectory();
  if (!isDirectory || !(await isInside(directory))) return [file];
  if (isNeverPacked(directory)) return [];
  const nested = await listFiles(path.join(root, directory), signal, { environment });
  // An empty one is most likely a submodule that is not checked out, so it is reported as left out.
  return nested.files.length === 0 ? [directory] : nested.files.map((inner) => `${directory}/${inner}`);
}

async function walk(root: string, isSkipped: (directory: string) => boolean, signal: AbortSignal): Promise<string[]> {
  const files: string[] = [];
  const rules = createIgnoreRules();
  const visit = async (directory: string): Promise<void> => {
    signal.throwIfAborted();
    await readRules(rules, root, directory, ".gitignore");
    for (const entry of await readdir(path.join(root, directory), { withFileTypes: true })) {
      const file = directory === "" ? entry.name : `${directory}/${entry.name}`;
      if (isNeverPacked(file) || rules.ignores(file, entry.isDirectory())) continue;
      if (isLeaf(entry)) files.push(file);
      else if (entry.isDirectory() && !isSkipped(file)) await visit(file);
    }
  };
  await visit("");
  return files;
}

/** Node replaces invalid UTF-8 in a name, and no file has the resulting name. */
const isInvalidUtf8 = (file: string) => file.includes("\uFFFD");

const isLeaf = (entry: Dirent) => entry.isFile() || entry.isSymbolicLink() || isInvalidUtf8(entry.name);

async function readRules(rules: IgnoreRules, root: string, directory: string, name: ".gitignore" | ".dockerignore") {
  const text = await readFile(path.join(root, directory, name), "utf8").catch(() => "");
  rules.add(directory, text, name === ".gitignore" ? "gitignore" : "dockerignore");
}

/** Whether a path, relative to the root, is below a directory of tools. */
export const isNeverPacked = (file: string) => file.split("/").some((part) => neverPacked.has(part));

/** Matches `.env`, `.env.local` and `.env.production`, but not example files, which are meant to be committed. */
function isEnvFile(file: string): boolean {
  return /(^|\/)\.env(\.(?!example|sample|template|dist|defaults)[\w-]+)*$/.test(file);
}

type InsideCheck = (directory: string) => Promise<boolean>;

/**
 * Returns a function that reports whether a directory, relative to the root, is inside the root. Git prints the names of its index as
 * they are. In a project that someone else packed together with its `.git`, they can be absolute, contain `..`, or lead through a link.
 */
function insideOf(root: string): InsideCheck {
  const known = new Map<string, Promise<boolean>>();
  const base = realpath(root);
  const check = async (directory: string) => {
    if (path.isAbsolute(directory)) return false;
    const real = await realpath(path.join(root, directory)).catch(() => null);
    // In a directory that is gone there are no files to pack.
    return real === null || isWithin(await base, real);
  };
  return (directory) => {
    const found = known.get(directory) ?? check(directory);
    known.set(directory, found);
    return found;
  };
}

/** Resolves a link to its target if that is inside the root, because archives of this API contain no links. */
async function findFile(root: string, file: string, isInside: InsideCheck): Promise<Stats | "gone" | "unusable"> {
  if (!(await isInside(path.dirname(file)))) return "unusable";
  const full = path.join(root, file);
  const own = await lstat(full).catch(() => undefined);
  if (own === undefined) return "gone"; // deleted, but git still knows it
  if (!own.isSymbolicLink()) return own.isFile() ? own : "unusable";
  const [base, target] = await Promise.all([realpath(root), realpath(full).catch(() => "")]);
  if (!target.startsWith(base + path.sep)) return "unusable";
  const meant = await lstat(target);
  return meant.isFile() ? meant : "unusable";
}

const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
