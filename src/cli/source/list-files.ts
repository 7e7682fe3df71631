import { execFile } from "node:child_process";
import type { Dirent, Stats } from "node:fs";
import { lstat, readdir, readFile, realpath } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { createIgnoreRules, type IgnoreRules } from "../../domain/ignore-rules.ts";
import type { Environment } from "../context.ts";

export interface FileList {
  /** Regular files, relative to the root with `/`, in byte order. */
  files: string[];
  sizeBytes: number;
  /** What a person might miss: `.env`, links that lead out. */
  leftOut: string[];
  /** Git said what belongs; otherwise the directory was walked. */
  fromGit: boolean;
}

/** Never part of a source: made by tools, or the history itself (the same list as other clients of this API). */
const neverPacked = new Set(["__pycache__", ".git", ".venv", "venv", "node_modules", ".tox", ".mypy_cache"]);

/**
 * What belongs to the source in a directory. In a git repository: tracked and new files that git does not ignore. Else
 * all files but those that .gitignore names. In both, minus .dockerignore, tool directories, and untracked `.env` files,
 * whose place is `--env-from`: an archive is not sealed.
 *
 * @param options.buildFiles What the build itself reads, which stays whatever .dockerignore says: that is about images alone, and
 *   names the Dockerfile in many projects.
 */
export async function listFiles(
  root: string,
  signal: AbortSignal,
  { environment, buildFiles = [] }: { environment?: Environment | undefined; buildFiles?: readonly string[] } = {},
): Promise<FileList> {
  const ofImages = createIgnoreRules();
  await readRules(ofImages, root, "", ".dockerignore");
  const git = await gitFiles(root, signal, environment);
  const isSkipped = (directory: string) =>
    ofImages.ignoresAllBelow(directory) && !buildFiles.some((file) => file.startsWith(`${directory}/`));
  const candidates = git?.files ?? (await walk(root, isSkipped, signal));
  const kept: string[] = [];
  const leftOut: string[] = [];
  let sizeBytes = 0;
  for (const file of candidates) {
    if (isNeverPacked(file)) continue;
    if (ofImages.ignoresBelow(file, false) && !buildFiles.includes(file)) continue;
    const found = await findFile(root, file);
    if (found === "gone" && !isGarbled(file)) continue;
    if (found === "gone" || found === "unusable" || (isEnvFile(file) && !git?.tracked.has(file))) leftOut.push(file);
    else {
      kept.push(file);
      sizeBytes += found.size;
    }
  }
  return { files: kept.sort(byBytes), sizeBytes, leftOut, fromGit: git !== undefined };
}

const run = promisify(execFile);

/** A hook is told of its repository by these. With them git takes any directory for the whole of it, and reads no rules above. */
const ofHooks = ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"];

/** Undefined where git is missing, or knows nothing of this directory. */
async function gitFiles(
  root: string,
  signal: AbortSignal,
  environment: Environment | undefined,
): Promise<{ files: string[]; tracked: Set<string> } | undefined> {
  const env = environment && { ...environment, ...Object.fromEntries(ofHooks.map((name) => [name, undefined])) };
  const list = async (...args: string[]) => {
    const command = ["-c", "core.fsmonitor=false", "-C", root, "ls-files", "-z", ...args];
    const { stdout } = await run("git", command, { maxBuffer: 256 * 1024 * 1024, signal, env });
    // In a submodule that was not checked out, git names that directory itself.
    return stdout.split("\0").filter((file) => file !== "" && file !== "./");
  };
  try {
    const tracked = await list("--cached");
    const others = await list("--others", "--exclude-standard");
    if (tracked.length + others.length === 0) return undefined; // an ignored directory of a repository
    const files: string[] = [];
    for (const file of new Set([...tracked, ...others])) {
      files.push(...(await withNested(root, file, signal, environment)));
    }
    return { files, tracked: new Set(tracked) };
  } catch (error) {
    signal.throwIfAborted();
    if ((error as { code?: unknown }).code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER") throw error;
    return undefined;
  }
}

/** Git names a submodule, or a repository inside, by its directory alone. */
async function withNested(
  root: string,
  file: string,
  signal: AbortSignal,
  environment: Environment | undefined,
): Promise<string[]> {
  const directory = file.replace(/\/$/, "");
  const isDirectory = (await lstat(path.join(root, directory)).catch(() => undefined))?.isDirectory();
  if (!isDirectory) return [file];
  if (isNeverPacked(directory)) return [];
  const nested = await listFiles(path.join(root, directory), signal, { environment });
  // One without files is most likely a submodule that was not checked out: it is told of as what stays out.
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

/** Of a name that is no UTF-8 nothing is known but that it is there: nothing has what is left of it. */
const isGarbled = (file: string) => file.includes("\uFFFD");

const isLeaf = (entry: Dirent) => entry.isFile() || entry.isSymbolicLink() || isGarbled(entry.name);

async function readRules(rules: IgnoreRules, root: string, directory: string, name: ".gitignore" | ".dockerignore") {
  const text = await readFile(path.join(root, directory, name), "utf8").catch(() => "");
  rules.add(directory, text, name === ".gitignore" ? "gitignore" : "dockerignore");
}

const isNeverPacked = (file: string) => file.split("/").some((part) => neverPacked.has(part));

/** `.env`, `.env.local`, `.env.production`; not the examples that people commit. */
function isEnvFile(file: string): boolean {
  return /(^|\/)\.env(\.(?!example|sample|template|dist|defaults)[\w-]+)*$/.test(file);
}

/** Links are packed as the file they mean, as long as that lies inside: archives of this API hold no links. */
async function findFile(root: string, file: string): Promise<Stats | "gone" | "unusable"> {
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
