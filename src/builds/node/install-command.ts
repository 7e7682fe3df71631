import { readFile } from "node:fs/promises";
import path from "node:path";
import type { Command } from "../detect/command-line.ts";
import { isFileInside } from "../sources/inside.ts";
import { findProgram } from "../worker/environment.ts";

/**
 * Returns the command that installs a JavaScript project. Its lock file selects the package manager, otherwise
 * package.json does, otherwise npm is used (contract 7.5).
 * @param directory relative to the root of the source.
 * @returns null when there is no package.json, so nothing to install.
 */
export async function installCommand(
  sourceDir: string,
  directory: string,
  searchPath: string,
): Promise<(Command & { because: string }) | null> {
  const has = (name: string) => isFileInside(sourceDir, path.posix.join(directory, name));
  if (!(await has("package.json"))) return null;
  const project = new ProjectFiles(path.join(sourceDir, directory));
  const locked = await firstLock(has);
  const manager = locked?.manager ?? (await project.declaredManager()) ?? "npm";
  const because =
    locked === null ? "There is no lock file: versions may differ from build to build." : `Found ${locked.file}.`;
  const argv = await argvOf(manager, locked !== null, project);
  if (manager === "npm" || findProgram(manager, searchPath) !== null) return { argv, cwd: directory, env: {}, because };
  // Every package manager is an npm package itself, and npm is always available.
  const package_ = await packageOf(manager, project);
  const viaNpm = ["npm", "exec", "--yes", `--package=${package_}`, "--", ...argv];
  return {
    argv: viaNpm,
    cwd: directory,
    env: {},
    because: `${because} ${manager} is not installed on this machine, so npm runs it.`,
  };
}

type Manager = "npm" | "yarn" | "pnpm" | "bun";

const lockFiles: { file: string; manager: Manager }[] = [
  { file: "yarn.lock", manager: "yarn" },
  { file: "pnpm-lock.yaml", manager: "pnpm" },
  { file: "package-lock.json", manager: "npm" },
  { file: "bun.lockb", manager: "bun" },
  { file: "bun.lock", manager: "bun" },
];

async function firstLock(has: (name: string) => Promise<boolean>) {
  for (const lock of lockFiles) if (await has(lock.file)) return lock;
  return null;
}

async function argvOf(manager: Manager, isLocked: boolean, project: ProjectFiles): Promise<string[]> {
  switch (manager) {
    case "npm":
      return isLocked ? ["npm", "ci"] : ["npm", "install"];
    case "yarn":
      if (!isLocked) return ["yarn", "install"];
      return ["yarn", "install", (await project.isYarnClassic()) ? "--frozen-lockfile" : "--immutable"];
    case "pnpm":
      return isLocked ? ["pnpm", "install", "--frozen-lockfile"] : ["pnpm", "install"];
    case "bun":
      return isLocked ? ["bun", "install", "--frozen-lockfile"] : ["bun", "install"];
  }
}

/** Returns the version that package.json requires, otherwise a major version that reads the lock file. */
async function packageOf(manager: Manager, project: ProjectFiles): Promise<string> {
  const version = await project.declaredVersion(manager);
  if (manager === "yarn") {
    const isClassic = version === null ? await project.isYarnClassic() : version.startsWith("1.");
    return isClassic ? `yarn@${version ?? "1"}` : `@yarnpkg/cli-dist@${version ?? "4"}`;
  }
  if (manager === "pnpm") return `pnpm@${version ?? ((await project.hasOldPnpmLock()) ? "8" : "10")}`;
  return `${manager}@${version ?? "1"}`;
}

/** The files of a project that determine its package manager. */
class ProjectFiles {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Returns `packageManager`, or `devEngines.packageManager.name`, when it is a known package manager. */
  async declaredManager(): Promise<Manager | null> {
    const { packageManager, devEngines } = await this.#manifest();
    const name = stringOrNull(packageManager)?.split("@")[0] ?? devEngines?.packageManager?.name;
    return lockFiles.find(({ manager }) => manager === name)?.manager ?? null;
  }

  async declaredVersion(manager: Manager): Promise<string | null> {
    const { packageManager } = await this.#manifest();
    return new RegExp(`^${manager}@(\\d+\\.\\d+\\.\\d+[\\w.-]*)`).exec(stringOrNull(packageManager) ?? "")?.[1] ?? null;
  }

  async isYarnClassic(): Promise<boolean> {
    return !/^__metadata:/m.test(await this.#read("yarn.lock"));
  }

  async hasOldPnpmLock(): Promise<boolean> {
    return /^lockfileVersion: '?[56]/m.test(await this.#read("pnpm-lock.yaml"));
  }

  async #manifest(): Promise<{ packageManager?: unknown; devEngines?: { packageManager?: { name?: string } } }> {
    try {
      const manifest: unknown = JSON.parse(await this.#read("package.json"));
      return typeof manifest === "object" && manifest !== null ? manifest : {};
    } catch {
      return {}; // the package manager reports what is wrong with it
    }
  }

  #read(name: string): Promise<string> {
    return readFile(path.join(this.#directory, name), "utf8").catch(() => "");
  }
}

const stringOrNull = (value: unknown) => (typeof value === "string" ? value : null);
