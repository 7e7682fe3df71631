import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { GitFailure, type GitRemote } from "./git-failure.ts";
import { type Git, withGit } from "./git-program.ts";

/** Commit that a ref points to at the time of the call. */
export interface ResolvedRef {
  /** 40 lowercase hex digits. */
  commitSha: string;
  refKind: "branch" | "tag" | "commit";
}

/**
 * Resolves a ref of a repository to a commit: a branch by its bare name or `refs/heads/<name>`, a tag by
 * `refs/tags/<name>`, and 7 to 40 hex digits for a commit if no branch has that name (contract 4.3).
 * @throws GitFailure
 */
export async function resolveRef({ ref, ...remote }: GitRemote & { ref: string }): Promise<ResolvedRef> {
  const name = ref.replace(/^refs\/(heads|tags)\//, "");
  const isTagRef = ref.startsWith("refs/tags/");
  if (!isRefName(name)) throw notFound(`'${ref.slice(0, 200)}' cannot be the name of a branch, a tag or a commit.`);
  return withGit(remote, async (git) => {
    const exact = /^[0-9a-f]{40}$/.test(ref) ? await findFullId(git, ref) : undefined;
    if (exact !== undefined) return exact;
    const found = await listRefs(git, name);
    const branch = found.get(`refs/heads/${name}`);
    if (branch !== undefined && !isTagRef) return { commitSha: branch, refKind: "branch" };
    const tag = found.get(`refs/tags/${name}^{}`) ?? found.get(`refs/tags/${name}`);
    if (tag !== undefined && isTagRef) return { commitSha: tag, refKind: "tag" };
    if (/^[0-9a-f]{7,40}$/i.test(ref))
      return { commitSha: await findCommit(git, name.toLowerCase()), refKind: "commit" };
    throw notFound(await suggestRef(git, { name, isTagRef, otherExists: tag !== undefined || branch !== undefined }));
  });
}

/** Paths of a commit whose content is stored elsewhere. */
export interface LeftOut {
  /** Submodules, which remain empty directories. */
  submodules: string[];
  /** LFS pointer files. */
  lfsFiles: string[];
}

/** What people wrote about a commit. */
export interface CommitText {
  /** At most 500 characters. */
  message: string;
  author: string | null;
}

export interface FetchedCommit extends LeftOut {
  /** null: git did not print it. */
  commit: CommitText | null;
}

/**
 * Checks out the files of one commit into `directory`, without history, submodules, LFS content or hooks.
 * @throws GitFailure `RefNotFound` if the repository no longer has the commit.
 */
export async function fetchCommit({
  commitSha,
  directory,
  ...remote
}: GitRemote & { commitSha: string; directory: string }): Promise<FetchedCommit> {
  checkCommitId(commitSha);
  const fetchFiles = async (git: Git): Promise<FetchedCommit> => {
    const gitDir = await initRepository(git);
    await fetchOne(git, gitDir, commitSha, []);
    await mkdir(directory, { recursive: true });
    await checkSize(git, gitDir, commitSha);
    await git.run([
      `--git-dir=${gitDir}`,
      `--work-tree=${directory}`,
      "checkout",
      "--quiet",
      "--force",
      "--detach",
      commitSha,
      "--",
    ]);
    const commit = await readCommitText(git, gitDir, commitSha);
    return { ...(await findLeftOut(git, { gitDir, directory, commitSha })), commit };
  };
  // A build watches the size of its directory.
  return withGit(remote, fetchFiles, { bytesMax: Number.POSITIVE_INFINITY });
}

/**
 * Files of a commit that is checked out. A few kilobytes of trees that name each other many times stand for billions of files, and
 * git would keep the list of them in memory. The largest repositories have half a million.
 */
const filesMax = 1_000_000;

/** Size of all .gitattributes of a commit. Git keeps those above a file in memory, which takes thirty times their size. */
const attributesBytesMax = 8 * 1024 * 1024;

/** Checks that a commit can be checked out. @throws GitFailure `TooLarge` */
async function checkSize(git: Git, gitDir: string, commitSha: string): Promise<void> {
  let files = 0;
  let attributesBytes = 0;
  await git.each([`--git-dir=${gitDir}`, "ls-tree", "-r", "-l", "-z", "--end-of-options", commitSha], (entry) => {
    files += 1;
    if (entry.subarray(-attributesName.length).equals(attributesName)) {
      const [, , , size] = entry.toString("latin1").split(/\s+/, 4);
      attributesBytes += Number(size);
    }
    return files <= filesMax && attributesBytes <= attributesBytesMax;
  });
  if (files > filesMax) {
    throw new GitFailure(
      "TooLarge",
      `The commit has more than ${filesMax} files, which is the limit for a build. Remove files that the server does not need.`,
    );
  }
  if (attributesBytes > attributesBytesMax) {
    throw new GitFailure(
      "TooLarge",
      `The .gitattributes files of the commit are larger than ${attributesBytesMax / 1024 / 1024} MiB together, which is the limit for a build.`,
    );
  }
}

const attributesName = Buffer.from(".gitattributes");

const messageCharactersMax = 500;

/** Reads message and author. Returns null if their size exceeds the limit of git's output, and the build continues. */
async function readCommitText(git: Git, gitDir: string, commitSha: string): Promise<CommitText | null> {
  const args = ["log", "-1", "--no-show-signature", "--no-color", "--format=%an%x00%B", "--end-of-options", commitSha];
  const printed = await git.run([`--git-dir=${gitDir}`, ...args]).catch(() => null);
  if (printed === null) return null;
  const [author = "", message = ""] = printed.split("\0");
  const cut = [...message.trim().slice(0, 2 * messageCharactersMax)].slice(0, messageCharactersMax).join("");
  return cut === "" ? null : { message: cut, author: author.trim() || null };
}

/** Lists the paths for a log message. Returns none if the output of git exceeds its limit, and the build continues. */
async function findLeftOut(
  git: Git,
  { gitDir, directory, commitSha }: { gitDir: string; directory: string; commitSha: string },
): Promise<LeftOut> {
  const ask = async (...args: string[]) => {
    const answer = await git.run(["-C", directory, `--git-dir=${gitDir}`, "--work-tree=.", ...args]).catch(() => "");
    return answer.split("\0").filter((line) => line !== "");
  };
  const [directories, lfsFiles] = await Promise.all([
    ask("ls-tree", "-r", "-d", "-z", "--full-tree", commitSha),
    ask("ls-files", "-z", "--", ":(attr:filter=lfs)"),
  ]);
  const submodules = directories.flatMap((line) => (line.startsWith("160000 ") ? [line.replace(/^[^\t]*\t/, "")] : []));
  return { submodules, lfsFiles };
}

/** Checks a full commit id. @throws GitFailure `RefNotFound` for anything but 40 lowercase hex digits. */
export function checkCommitId(text: string): void {
  if (!/^[0-9a-f]{40}$/.test(text)) throw notFound(`'${text.slice(0, 80)}' is not a full commit id.`);
}

/** Returns the refs with exactly this name. Git's patterns match the end of a name, so its output may contain others. */
async function listRefs(git: Git, name: string): Promise<Map<string, string>> {
  const patterns = [`refs/heads/${name}`, `refs/tags/${name}`, `refs/tags/${name}^{}`];
  const answer = await git.run(["ls-remote", "--", git.url, ...patterns]);
  return new Map(
    answer.split("\n").flatMap((line) => {
      const [commitSha = "", ref = ""] = line.split("\t");
      return patterns.includes(ref) ? [[ref, commitSha] as const] : [];
    }),
  );
}

/**
 * Resolves a full commit id with one run of git instead of four, by fetching the commit together with a branch of the same name.
 * A branch can only point to a commit, so the object under `found` is one.
 * @returns undefined if the host does not serve it this way or it is not a commit. Separate calls then find the reason.
 */
async function findFullId(git: Git, hex: string): Promise<ResolvedRef | undefined> {
  const gitDir = path.join(git.scratchDir, "full-id");
  const branches = path.join(gitDir, "refs", "heads");
  await Promise.all([mkdir(path.join(gitDir, "objects"), { recursive: true }), mkdir(branches, { recursive: true })]);
  // A minimal repository has these two files, objects/ and refs/ (gitrepository-layout(5)).
  await writeFile(path.join(gitDir, "HEAD"), "ref: refs/heads/none\n");
  await writeFile(path.join(gitDir, "config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
  // A pattern without a match is not an error, while a missing name is.
  const wanted = [`+${hex}:refs/heads/found`, `+refs/heads/${hex}*:refs/heads/${hex}*`];
  try {
    await git.run([...fetchFor(gitDir), "--depth=1", "--filter=tree:0", "--", git.url, ...wanted]);
  } catch (error) {
    if (!isNoAnswer(error)) throw error;
    return undefined;
  }
  const read = (name: string) => readFile(path.join(branches, name), "utf8").catch(() => "");
  const [branch, commit] = (await Promise.all([read(hex), read("found")])).map((text) => text.trim());
  if (branch) return { commitSha: branch, refKind: "branch" };
  return commit === hex ? { commitSha: hex, refKind: "commit" } : undefined;
}

/**
 * Resolves a commit id, even if no ref points to the commit. A full id is fetched directly. For a short id all commits are fetched
 * (without file contents if the host supports that) to check that it is unique.
 */
async function findCommit(git: Git, hex: string): Promise<string> {
  const gitDir = await initRepository(git);
  if (hex.length === 40) await fetchOne(git, gitDir, hex, ["--filter=tree:0"]);
  else await fetchAll(git, gitDir, ["--filter=tree:0"]);
  try {
    return (
      await git.run([`--git-dir=${gitDir}`, "rev-parse", "--verify", "--quiet", "--end-of-options", `${hex}^{commit}`])
    ).trim();
  } catch (error) {
    if (!(error instanceof GitFailure) || error.reason !== "GitFailed") throw error;
    throw notFound(`There is no branch '${hex}', and no commit whose id begins with it (or more than one).`);
  }
}

/** Fetches one commit by its id, or all refs from hosts that do not serve single commits. */
export async function fetchOne(git: Git, gitDir: string, commitSha: string, options: string[]): Promise<void> {
  try {
    await git.run([...fetchFor(gitDir), "--depth=1", ...options, "--", git.url, commitSha]);
  } catch (error) {
    if (!isNoAnswer(error)) throw error;
    await fetchAll(git, gitDir, options);
    await git.run([`--git-dir=${gitDir}`, "cat-file", "-e", `${commitSha}^{commit}`]).catch(() => {
      throw notFound(`The repository has no commit ${commitSha}. It may have been removed by a forced push.`);
    });
  }
}

/** Returns whether the host was reached but does not serve the requested object this way. */
const isNoAnswer = (error: unknown) =>
  error instanceof GitFailure && ["RefNotFound", "GitFailed"].includes(error.reason);

async function fetchAll(git: Git, gitDir: string, options: string[]): Promise<void> {
  await git.run([
    ...fetchFor(gitDir),
    ...options,
    "--",
    git.url,
    "+refs/heads/*:refs/heads/*",
    "+refs/tags/*:refs/tags/*",
  ]);
}

/** Returns the arguments of `git fetch`. The caller appends options and `-- <url> <refs>`. */
export const fetchFor = (gitDir: string) => [
  `--git-dir=${gitDir}`,
  "fetch",
  "--quiet",
  "--no-tags",
  "--no-write-fetch-head",
];

/** Creates an empty repository in the scratch directory of this operation. @returns Its directory. */
export async function initRepository(git: Git): Promise<string> {
  const gitDir = path.join(git.scratchDir, "repository");
  await git.run(["init", "--quiet", "--bare", "--template=", "--", gitDir]);
  return gitDir;
}

/** Returns the default branch. @throws GitFailure `RefNotFound` for an empty repository. */
export function defaultBranch(remote: GitRemote): Promise<string> {
  return withGit(remote, async (git) => {
    const main = await headOf(git);
    if (main === undefined) throw notFound("The repository is empty or has no default branch.");
    return main;
  });
}

async function headOf(git: Git): Promise<string | undefined> {
  const head = await git.run(["ls-remote", "--symref", "--", git.url, "HEAD"]);
  return /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(head)?.[1];
}

/** Suggests the ref that the user probably meant: the other kind of ref, or the default branch. */
async function suggestRef(git: Git, ref: { name: string; isTagRef: boolean; otherExists: boolean }): Promise<string> {
  const what = ref.isTagRef ? `tag '${ref.name}'` : `branch '${ref.name}'`;
  if (ref.otherExists) {
    return `There is no ${what}. There is a ${ref.isTagRef ? `branch of that name: use '${ref.name}'` : `tag of that name: use 'refs/tags/${ref.name}'`}.`;
  }
  const main = await headOf(git);
  if (main === undefined) return `There is no ${what}: the repository is empty or has no default branch.`;
  return `There is no ${what}. The default branch is '${main}'.`;
}

/** Applies the relevant rules of `git check-ref-format`: no option, no pattern, no revision syntax. */
function isRefName(name: string): boolean {
  if (name.length === 0 || name.length > 1024 || /[\p{Cc} ~^:?*[\\]/u.test(name)) return false;
  if (name.startsWith("-") || name.endsWith(".") || name.includes("..") || name.includes("@{") || name === "@")
    return false;
  return name.split("/").every((part) => part !== "" && !part.startsWith(".") && !part.endsWith(".lock"));
}

const notFound = (message: string) => new GitFailure("RefNotFound", message);
