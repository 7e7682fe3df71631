import path from "node:path";
import { checkCommitId, fetchFor, fetchOne, initRepository } from "./git.ts";
import { GitFailure, type GitRemote } from "./git-failure.ts";
import { type Git, withGit } from "./git-program.ts";

/**
 * Returns the paths that differ between two commits, or null if the repository no longer has the older one. File contents are not
 * fetched if the host supports partial fetches.
 * @throws GitFailure
 */
export async function changedPaths({
  from,
  to,
  ...remote
}: GitRemote & { from: string; to: string }): Promise<string[] | null> {
  checkCommitId(from);
  checkCommitId(to);
  return withGit(remote, async (git) => {
    const gitDir = await initRepository(git);
    try {
      await git.run([...fetchFor(gitDir), "--depth=1", "--filter=blob:none", "--", git.url, from, to]);
    } catch (error) {
      if (error instanceof GitFailure && ["RefNotFound", "GitFailed"].includes(error.reason)) return null;
      throw error;
    }
    const named = ["diff-tree", "-r", "--name-only", "--no-renames", "-z", "--end-of-options", from, to];
    return pathsIn(git, [`--git-dir=${gitDir}`, ...named]);
  });
}

/** Returns all paths of a commit. @throws GitFailure */
export async function listFiles({ commitSha, ...remote }: GitRemote & { commitSha: string }): Promise<string[]> {
  checkCommitId(commitSha);
  return withGit(remote, async (git) => namesOf(git, await fetchTree(git, commitSha), commitSha));
}

/**
 * Checks whether a commit has a file. A path behind a symbolic link counts as present, because only a checkout follows links.
 * @param file Path relative to the root.
 * @returns If the file is missing, the paths that exist, or an empty list if there are too many.
 * @throws GitFailure
 */
export async function findFile({
  commitSha,
  file,
  ...remote
}: GitRemote & { commitSha: string; file: string }): Promise<{ isThere: true } | { isThere: false; files: string[] }> {
  checkCommitId(commitSha);
  const parts = path.posix.normalize(file).split("/");
  const wayTo = parts.map((_, at) => parts.slice(0, at + 1).join("/"));
  return withGit(remote, async (git) => {
    const gitDir = await fetchTree(git, commitSha);
    const listed = ["ls-tree", "-t", "-z", "--end-of-options", commitSha, ...wayTo];
    const entries = await git.run([`--git-dir=${gitDir}`, "--literal-pathspecs", ...listed]);
    const isThere = namesIn(entries).some((entry) => {
      const [head = "", name] = entry.split("\t");
      const [mode, kind] = head.split(" ");
      return (kind === "blob" && name === wayTo.at(-1)) || (mode === linkMode && wayTo.includes(name ?? ""));
    });
    if (isThere) return { isThere };
    return { isThere, files: await namesOf(git, gitDir, commitSha).catch(() => []) };
  });
}

const linkMode = "120000";

/** Fetches a commit and its directories, without file contents if the host supports that. @returns The repository. */
async function fetchTree(git: Git, commitSha: string): Promise<string> {
  const gitDir = await initRepository(git);
  await fetchOne(git, gitDir, commitSha, ["--filter=blob:none"]);
  return gitDir;
}

async function namesOf(git: Git, gitDir: string, commitSha: string): Promise<string[]> {
  const listed = ["ls-tree", "-r", "--name-only", "-z", "--end-of-options", commitSha];
  return pathsIn(git, [`--git-dir=${gitDir}`, ...listed]);
}

/** Reads paths as they arrive, so that many do not occupy this process. @throws GitFailure `TooLarge` */
async function pathsIn(git: Git, args: string[]): Promise<string[]> {
  const paths: string[] = [];
  let bytes = 0;
  await git.each(args, (path) => {
    bytes += path.length + 1;
    if (path.length > 0) paths.push(path.toString("utf8"));
    return bytes <= pathBytesMax && paths.length <= pathsMax;
  });
  if (bytes > pathBytesMax || paths.length > pathsMax)
    throw new GitFailure(
      "TooLarge",
      `The repository is too large: git answered with more than ${pathsMax} paths, or 8 MiB.`,
    );
  return paths;
}

/** What git may answer. Paths that people chose reach the limit of their number after that of their size. */
const pathBytesMax = 8 * 1024 * 1024;
const pathsMax = 300_000;

const namesIn = (answer: string) => answer.split("\0").filter((name) => name !== "");
