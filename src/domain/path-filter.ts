import { errors } from "../contract/error.ts";
import { createIgnoreRules } from "./ignore-rules.ts";

export interface PathFilter {
  /** Patterns of .gitignore(5); null: all files. */
  include: readonly string[] | null;
  /** null: none. */
  exclude: readonly string[] | null;
}

/**
 * Limit of the work to compare: characters of all patterns times those of all paths and their parent directories. It takes a
 * second at worst. A push of a thousand files is about 20 million.
 */
const comparisonsMax = 200_000_000;

/** Comparisons between two pauses: some milliseconds. */
const comparisonsBetweenPauses = 1_000_000;

/** Returns whether a change of these files counts. It does for an unknown set of files (null), and for one too large to compare. */
export function isRelevantChange(paths: readonly string[] | null, filter: PathFilter): boolean {
  const steps = comparePaths(paths, filter);
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

/** Compares like `isRelevantChange`, in steps between which a server can do other work. */
export function* comparePaths(
  paths: readonly string[] | null,
  { include, exclude }: PathFilter,
): Generator<undefined, boolean> {
  if (paths === null || (include === null && exclude === null)) return true;
  const perPath = [...(include ?? []), ...(exclude ?? [])].reduce((sum, pattern) => sum + pattern.length, 0);
  const costOf = (path: string) => perPath * path.length * path.split("/").length;
  const compared = paths.reduce((sum, path) => sum + costOf(path), 0);
  if (compared > comparisonsMax) return true;
  const [wanted, unwanted] = [include, exclude].map((patterns) => {
    const rules = createIgnoreRules();
    if (patterns !== null) rules.add("", patterns.join("\n"), "gitignore");
    return rules;
  });
  let left = comparisonsBetweenPauses;
  for (const path of paths) {
    left -= costOf(path);
    if (left <= 0) {
      left = comparisonsBetweenPauses;
      yield;
    }
    const isWanted = include === null || wanted?.ignoresBelow(path, false);
    if (isWanted && !unwanted?.ignoresBelow(path, false)) return true;
  }
  return false;
}

/** Each star doubles the cost of a hostile pattern. 3 in a part of the path, and 2 across parts, are enough. */
const starsOfPartMax = 3;
const deepStarsMax = 2;

/** Checks patterns. @throws ApiError 400 `invalidField` for a pattern that is invalid or expensive to compare. */
export function checkPatterns(field: string, patterns: readonly string[] | null): void {
  for (const pattern of patterns ?? []) {
    const problem = patternProblem(pattern);
    if (problem !== null) throw errors.invalidField(field, `has a pattern that ${problem}`);
  }
}

function patternProblem(pattern: string): string | null {
  if (/\p{Cc}/u.test(pattern) || pattern.trim() === "" || pattern.startsWith("#")) return "names no file.";
  const parts = pattern.split("/");
  if (parts.filter((part) => part.includes("**")).length > deepStarsMax)
    return `has more than ${deepStarsMax} times '**'.`;
  const isHeavy = parts.some((part) => (part.match(/\*+/g) ?? []).length > starsOfPartMax);
  return isHeavy ? `has more than ${starsOfPartMax} stars between two slashes.` : null;
}
