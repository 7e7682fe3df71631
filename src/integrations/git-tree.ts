import { checkCommitId, fetchFor, initRepository } from "./git.ts";
import { GitFailure, type GitRemote } from "./git-failure.ts";
import { withGit } from "./git-program.ts";

/**
 * Files that differ between two commits, whatever lies between them; null: it cannot be said, as the repository has lost
 * the older one. Files themselves are not fetched where the host can leave them out.
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
    return namesIn(await git.run([`--git-dir=${gitDir}`, ...named]));
  });
}

/** All files of a commit. @throws GitFailure */
export async function listFiles({ commitSha, ...remote }: GitRemote & { commitSha: string }): Promise<string[]> {
  checkCommitId(commitSha);
  return withGit(remote, async (git) => {
    const gitDir = await initRepository(git);
    await git.run([...fetchFor(gitDir), "--depth=1", "--filter=blob:none", "--", git.url, commitSha]);
    return namesIn(
      await git.run([`--git-dir=${gitDir}`, "ls-tree", "-r", "--name-only", "-z", "--end-of-options", commitSha]),
    );
  });
}

const namesIn = (answer: string) => answer.split("\0").filter((name) => name !== "");
