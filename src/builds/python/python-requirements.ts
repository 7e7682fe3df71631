import type { BuildFailure } from "../failure.ts";

/** Returns the options by which pip and uv install only versions of packages that need no build. */
export const onlyBinary = (packages: readonly string[]): string[] =>
  packages.flatMap((name) => ["--only-binary", name]);

/** What an installer gets for a Python server. */
export interface ServerRequirements {
  /** Arguments of the installer, run in `cwd`. */
  argv: string[];
  /** The same without the project itself, for a project that cannot be packaged; null: it is not among them. */
  withoutProject: string[] | null;
  /** Arguments of an installation before the other one. Absent: none. Any failure gives them up. */
  first?: string[];
  /**
   * What is installed when the versions of the lock file contradict the project or do not exist any more; absent: no lock file, or
   * nothing of it is kept.
   * @param python for which the versions that still fit are kept.
   * @param binaries packages of which only versions without a build are kept.
   */
  unlocked?: (python: string, binaries: readonly string[]) => Promise<ServerRequirements | null>;
  /**
   * Returns the same requirements with those versions of an outdated lock file that still fit the project. Absent: the lock file is
   * up to date, or there is none.
   */
  withKept?: (python: string) => Promise<ServerRequirements>;
  /** Whether versions of a lock file that contradicts the project were kept. */
  hasKept?: true;
  /** Whether another file beside the pyproject.toml decides, too. It is often outdated, so any failure gives it up. */
  mayBeOutdated?: true;
  /** Whether an environment of conda decides, of whose versions PyPI may not have all. */
  isOfConda?: true;
  /** The lock file whose versions are installed; absent: none. */
  lock?: string;
  /** Packages of the source among the requirements, relative to its root. */
  packageDirs?: string[];
  /** Relative to the root of the source. */
  cwd: string;
  /** For the log: which file was used. */
  because: string;
  /** All values that decide what is installed. */
  identity: unknown[];
  /** Explains why it cannot be installed. @param lines of the log. @returns null: it does not know. */
  explain?: (lines: readonly string[]) => BuildFailure | null;
  /** False when the installation runs code of the project, or reads more than its requirements. */
  isShareable: boolean;
}
