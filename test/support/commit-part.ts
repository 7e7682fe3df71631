import { spawnSync } from "node:child_process";

/** Returns which of `parts` the checked-out commit chooses, from 0. Without a repository, the first one. */
export function partOfCommit(parts: number): number {
  const head = spawnSync("git", ["rev-parse", "--short=6", "HEAD"], { encoding: "utf8" }).stdout;
  return (Number.parseInt(head, 16) || 0) % parts;
}

/**
 * Returns the files that a suite runs: those of the command line `[FILES] [--part-of N]` with other options of `test/run.ts`, or `all`. `--part-of N` leaves one of N
 * parts, which the commit chooses, so that all files are run in turn, and prints which.
 * @param all neighbours of the list are in different parts.
 * @throws Error if N is not a number from 1 on.
 */
export function filesToRun(argv: string[], all: string[]): string[] {
  const chosen = [...argv];
  const at = chosen.indexOf("--part-of");
  const [, number] = at < 0 ? [] : chosen.splice(at, 2);
  const parts = Number(at < 0 ? 1 : number);
  if (!Number.isInteger(parts) || parts < 1) throw new Error(`--part-of is a number from 1 on, not '${number}'.`);
  const files = chosen.length > 0 ? chosen : all;
  if (parts === 1) return files;
  const part = partOfCommit(parts);
  const run = files.filter((_, index) => index % parts === part);
  console.log(
    `This commit runs part ${part + 1} of ${parts}: ${run.length} of ${files.length} files. Without --part-of, all run.`,
  );
  return run;
}
