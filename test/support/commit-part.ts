import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";

/** Returns which of `parts` the checked-out commit chooses, from 0. Without a repository, the first one. */
export function partOfCommit(parts: number): number {
  const head = spawnSync("git", ["rev-parse", "--short=6", "HEAD"], { encoding: "utf8" }).stdout;
  return (Number.parseInt(head, 16) || 0) % parts;
}

/**
 * Returns the files that a suite runs: those of the command line `[FILES] [--part-of N]`, or `all`. `--part-of N` leaves one of N
 * parts, which the commit chooses, so that all files are run in turn, and prints which.
 * @param all neighbours of the list are in different parts.
 * @throws Error if N is not a number from 1 on, or there is another option.
 */
export function filesToRun(argv: string[], all: string[]): string[] {
  const { values, positionals } = parseArgs({
    ...{ args: argv, allowPositionals: true },
    options: { "part-of": { type: "string", default: "1" } },
  });
  const parts = Number(values["part-of"]);
  if (!Number.isInteger(parts) || parts < 1)
    throw new Error(`--part-of is a number from 1 on, not '${values["part-of"]}'.`);
  const files = positionals.length > 0 ? positionals : all;
  if (parts === 1) return files;
  const part = partOfCommit(parts);
  const run = files.filter((_, index) => index % parts === part);
  console.log(
    `This commit runs part ${part + 1} of ${parts}: ${run.length} of ${files.length} files. Without --part-of, all run.`,
  );
  return run;
}
