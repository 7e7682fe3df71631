import { mkdir, truncate, writeFile } from "node:fs/promises";
import path from "node:path";
import { checkCommitId, fetchOne, initRepository } from "./git.ts";
import { GitFailure, type GitRemote } from "./git-failure.ts";
import { type Git, withGit } from "./git-program.ts";

/** Limits of `fetchSmallFiles`. */
export interface SmallFileLimits {
  /** Larger files come without their content. */
  fileBytesMax: number;
  filesMax: number;
  /** Directories below the root. */
  depthMax: number;
  /**
   * Limit for the bytes that the host sends, because some hosts send large files too, and for the total size of the
   * files, because many files may share one content.
   */
  packBytesMax: number;
}

/**
 * Writes the small files of one commit into an empty directory, those nearest to the root first. A larger file, or one for which
 * no space is left, becomes an empty one of a size above the limit, so that readers see that it exists and is too large to read.
 * @throws GitFailure
 */
export async function fetchSmallFiles({
  commitSha,
  directory,
  limits,
  ...remote
}: GitRemote & { commitSha: string; directory: string; limits: SmallFileLimits }): Promise<void> {
  checkCommitId(commitSha);
  const fetchFiles = async (git: Git) => {
    const gitDir = await initRepository(git);
    await fetchOne(git, gitDir, commitSha, [`--filter=blob:limit=${limits.fileBytesMax}`]);
    await checkOut(git, { gitDir, commitSha, directory, limits });
  };
  await withGit(remote, fetchFiles, { bytesMax: limits.packBytesMax });
}

interface Checkout {
  gitDir: string;
  commitSha: string;
  directory: string;
  limits: SmallFileLimits;
}

async function checkOut(git: Git, { gitDir, commitSha, directory, limits }: Checkout): Promise<void> {
  const inRepository = (...args: string[]) => git.run([`--git-dir=${gitDir}`, ...args]).catch(explainTooMany);
  const files = await listNearest(git, { gitDir, commitSha, limits });
  // Lists the objects that arrived. Asking for one object by its id would fetch it.
  const listed = await inRepository("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objectsize)");
  const sizes = sizesIn(listed, new Set(files.map(({ objectId }) => objectId)));
  let left = limits.packBytesMax;
  const kept = new Set<TreeFile>();
  for (const file of files) {
    const bytes = sizes.get(file.objectId) ?? Infinity;
    if (bytes > limits.fileBytesMax || bytes > left) continue;
    left -= bytes;
    kept.add(file);
  }
  // These come first, while the directory has no links that they could follow.
  await mkdir(directory, { recursive: true });
  for (const { parts } of files.filter((one) => !kept.has(one))) {
    const file = path.join(directory, ...parts);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, "");
    await truncate(file, limits.fileBytesMax + 1);
  }
  if (kept.size === 0) return;
  const list = path.join(git.scratchDir, "small-files");
  await writeFile(list, [...kept].map(({ parts }) => parts.join("/")).join("\0"));
  const from = [`--pathspec-from-file=${list}`, "--pathspec-file-nul"];
  await inRepository(
    `--work-tree=${directory}`,
    "--literal-pathspecs",
    "checkout",
    "--quiet",
    "--force",
    ...from,
    commitSha,
  );
}

/** What git may list. Names that people chose reach the limit of their number after that of their size. */
const listedBytesMax = 8 * 1024 * 1024;
const listedFilesMax = 150_000;

/** Lists the files of a commit that are nearest to the root. They are read as they arrive, so that many do not occupy this process. */
async function listNearest(git: Git, { gitDir, commitSha, limits }: Omit<Checkout, "directory">): Promise<TreeFile[]> {
  const byDepth: TreeFile[][] = Array.from({ length: limits.depthMax + 1 }, () => []);
  let [bytes, files] = [0, 0];
  await git.each([`--git-dir=${gitDir}`, "ls-tree", "-r", "-z", "--end-of-options", commitSha], (entry) => {
    bytes += entry.length + 1;
    files += 1;
    const depth = depthOf(entry);
    const file = depth <= limits.depthMax ? fileIn(entry.toString("utf8")) : undefined;
    if (file !== undefined) byDepth[depth]?.push(file);
    return bytes <= listedBytesMax && files <= listedFilesMax;
  });
  if (bytes > listedBytesMax || files > listedFilesMax) throw tooMany();
  return byDepth.flat().slice(0, limits.filesMax);
}

const slash = 0x2f;

/** Returns the number of directories above a file. */
function depthOf(entry: Buffer): number {
  let depth = 0;
  for (let at = entry.indexOf(slash); at !== -1; at = entry.indexOf(slash, at + 1)) depth += 1;
  return depth;
}

/** Returns the sizes of some objects in a list of lines, each an id and a size. */
function sizesIn(listed: string, wanted: ReadonlySet<string>): Map<string, number> {
  const sizes = new Map<string, number>();
  for (let from = 0, end = listed.indexOf("\n"); end !== -1; from = end + 1, end = listed.indexOf("\n", from)) {
    const blank = listed.indexOf(" ", from);
    const id = listed.slice(from, blank);
    if (wanted.has(id)) sizes.set(id, Number(listed.slice(blank + 1, end)));
  }
  return sizes;
}

function explainTooMany(error: unknown): never {
  if (!(error instanceof GitFailure) || error.reason !== "TooLarge") throw error;
  throw tooMany();
}

const tooMany = () =>
  new GitFailure("TooLarge", "The commit has too many files to look into. Set the config path and deploy it.");

/** Linux allows 255 bytes for the name of a file. */
const nameBytesMax = 255;

interface TreeFile {
  objectId: string;
  parts: string[];
}

/** Reads one line of `ls-tree`. Returns undefined for submodules, names that lead elsewhere, and names that are not text or too long. */
function fileIn(line: string): TreeFile | undefined {
  const [, objectId, name] = /^(?:100644|100755|120000) blob ([0-9a-f]+)\t(.+)$/s.exec(line) ?? [];
  if (objectId === undefined || name === undefined) return undefined;
  const parts = name.split("/");
  const leadsElsewhere = parts.some((part) => ["", ".", ".."].includes(part) || part.toLowerCase() === ".git");
  const isOdd = name.includes("\uFFFD") || parts.some((part) => Buffer.byteLength(part) > nameBytesMax);
  return leadsElsewhere || isOdd || parts.includes("node_modules") ? undefined : { objectId, parts };
}
