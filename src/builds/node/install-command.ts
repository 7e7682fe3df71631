import { createReadStream } from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { hasNodeMember } from "../../domain/detection/workspaces.ts";
import type { Command } from "../detect/command-line.ts";
import { isFileInside } from "../sources/inside.ts";
import { findProgram } from "../worker/environment.ts";

/** The command that installs a project, and how its package manager is run. */
export interface Install extends Command {
  because: string;
  /** Program and arguments of the package manager, to which `run NAME` can be added. */
  manager: string[];
  /** Arguments of the package manager that update the packages named after them as far as package.json allows; null: no lock file. */
  update: string[] | null;
  /** Arguments that install only what the project and the root of its pnpm workspace need; null: it is not a member of one. */
  onlyMember: string[] | null;
  /** How the project is installed when its lock file cannot be used; null: no lock file. */
  unlocked: {
    lockFile: string;
    argv: string[] /** Further arguments after packages were removed from it. */;
    repair: string[];
  } | null;
}

/**
 * Returns the command that installs a JavaScript project. Its lock file selects the package manager, otherwise
 * package.json does, otherwise pnpm-workspace.yaml, otherwise npm is used (contract 7.5). A project without a lock file of its own,
 * in a repository with one, is a member of a workspace: then the whole workspace is installed.
 * @param directory relative to the root of the source.
 * @returns null when there is no package.json, so nothing to install.
 */
export async function installCommand(
  sourceDir: string,
  directory: string,
  searchPath: string,
): Promise<Install | null> {
  const root = await installRoot(sourceDir, directory);
  if (root === null) return null;
  const { project, locked } = root;
  const manager = locked?.manager ?? (await project.declaredManager()) ?? (await project.usualManager());
  const where =
    root.directory === directory ? "" : ` in ${root.directory === "." ? "the root of the source" : root.directory}`;
  const because =
    locked === null
      ? "There is no lock file: versions may differ from build to build."
      : `Found ${locked.file}${where}.`;
  const onlyMember = manager === "pnpm" ? memberFilter(path.posix.relative(root.directory, root.member)) : null;
  const isLarge = locked !== null && onlyMember !== null && (await project.countPnpmMembers()) > membersMax;
  const filter = isLarge ? onlyMember : [];
  const argv = [...(await argvOf(manager, locked !== null, project)), ...filter];
  const prefix = await managerPrefix(manager, project, searchPath);
  const viaNpm =
    prefix[1] === "exec"
      ? ` npm runs ${manager}, because this machine does not have the version that the project needs.`
      : "";
  return {
    argv: manager === "npm" ? argv : [...prefix, ...argv.slice(1)],
    cwd: root.directory,
    env: await managerEnvironment(manager, project),
    because: `${because}${viaNpm}`,
    manager: prefix,
    onlyMember,
    update: locked === null ? null : await updateOf(manager, project),
    unlocked:
      locked === null
        ? null
        : {
            lockFile: path.posix.join(root.directory, locked.file),
            repair: manager === "pnpm" ? ["--fix-lockfile"] : [],
            // In CI, pnpm refuses to change a lock file.
            argv: [
              ...prefix,
              ...(await argvOf(manager, false, project)).slice(1),
              ...filter,
              ...(manager === "pnpm" ? ["--no-frozen-lockfile"] : []),
            ],
          },
  };
}

/** The package manager of an installation, which npm may run. */
export const managerName = ({ manager }: Pick<Install, "manager">): Manager =>
  lockFiles.find((lock) => lock.manager === manager.at(-1))?.manager ?? "npm";

/** Above this number of members, only a part of a pnpm workspace is installed. A hundred examples take gigabytes and many minutes. */
const membersMax = 20;

/** The `...` also selects the members on which this one depends. */
const memberFilter = (member: string) => (member === "" ? null : [`--filter={./${member}}...`, "--filter={.}"]);

/**
 * Returns how a command of the user that starts with a package manager is run: through npm, when this machine does not have
 * the package manager.
 */
export async function withManager(command: Command, sourceDir: string, searchPath: string): Promise<Command> {
  const manager = lockFiles.find((lock) => lock.manager === command.argv[0])?.manager;
  if (manager === undefined || manager === "npm") return command;
  const root = await installRoot(sourceDir, command.cwd);
  const project = root?.project ?? new ProjectFiles(path.join(sourceDir, command.cwd));
  const prefix = await managerPrefix(manager, project, searchPath);
  const env = { ...(await managerEnvironment(manager, project)), ...command.env };
  return { ...command, argv: [...prefix, ...command.argv.slice(1)], env };
}

/** Every package manager is an npm package itself, and npm is always available. */
async function managerPrefix(manager: Manager, project: ProjectFiles, searchPath: string): Promise<string[]> {
  if (manager === "npm" && (await project.hasDevEngines())) return ["npm", "--force"];
  const isHere = manager === "npm" || findProgram(manager, searchPath) !== null;
  if (isHere && !(manager === "yarn" && (await project.needsNewYarn()))) return [manager];
  const package_ = `--package=${await packageOf(manager, project)}`;
  if (!(await project.hasDevEngines())) return ["npm", "exec", "--yes", package_, "--", manager];
  // npm refuses to run any program in a project that asks for another package manager. The others take --force for their own.
  return ["npm", "exec", "--yes", "--force", package_, "--", "env", "-u", "npm_config_force", manager];
}

/**
 * Yarn from version 2 on needs node_modules, because programs outside the project, as the agent server, load its packages. Yarn 1
 * refuses packages that name other versions of Node, where the others warn. Each refuses to run with settings that it does not know.
 */
async function managerEnvironment(manager: Manager, project: ProjectFiles): Promise<Record<string, string>> {
  if (manager !== "yarn") return {};
  return (await project.runsYarnClassic()) ? { YARN_IGNORE_ENGINES: "true" } : { YARN_NODE_LINKER: "node-modules" };
}

/** Returns the directory with the package.json of a project: its own, or the nearest one upwards; null: there is none. */
export async function packageDirectory(sourceDir: string, directory: string): Promise<string | null> {
  return (await installRoot(sourceDir, directory))?.member ?? null;
}

/** Returns the directory in which a project is installed and the name of its lock file there; null: there is no package.json. */
export async function lockOf(
  sourceDir: string,
  directory: string,
): Promise<{ directory: string; lockFile: string | null } | null> {
  const root = await installRoot(sourceDir, directory);
  return root === null ? null : { directory: root.directory, lockFile: root.locked?.file ?? null };
}

/** Finds the directory to install: the nearest one upwards with a package.json, or the root of the workspace that has it. */
async function installRoot(sourceDir: string, directory: string) {
  let nearest: string | null = null;
  for (let at = path.posix.normalize(directory); ; at = path.posix.dirname(at)) {
    const has = (name: string) => isFileInside(sourceDir, path.posix.join(at, name));
    if (await has("package.json")) {
      nearest ??= at;
      const locked = await firstLock(has);
      const project = new ProjectFiles(path.join(sourceDir, at));
      // The lock file of a parent covers only the members of its workspace.
      const isOwn = at === nearest ? locked !== null : await project.hasMember(path.posix.relative(at, nearest));
      if (isOwn) return { directory: at, member: nearest, project, locked };
    }
    if (at === ".") break;
  }
  if (nearest === null) return null;
  return {
    directory: nearest,
    member: nearest,
    project: new ProjectFiles(path.join(sourceDir, nearest)),
    locked: null,
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
      // In CI, Yarn from version 2 on refuses to write a lock file.
      if (!isLocked)
        return (await project.usesYarnClassic()) ? ["yarn", "install"] : ["yarn", "install", "--no-immutable"];
      return ["yarn", "install", (await project.isYarnClassic()) ? "--frozen-lockfile" : "--immutable"];
    case "pnpm":
      return isLocked ? ["pnpm", "install", "--frozen-lockfile"] : ["pnpm", "install"];
    case "bun":
      return isLocked ? ["bun", "install", "--frozen-lockfile"] : ["bun", "install"];
  }
}

async function updateOf(manager: Manager, project: ProjectFiles): Promise<string[]> {
  if (manager !== "yarn") return ["update"];
  return (await project.isYarnClassic()) ? ["upgrade"] : ["up", "--recursive"];
}

/** Returns the version that package.json requires, otherwise a major version that reads the lock file. */
async function packageOf(manager: Manager, project: ProjectFiles): Promise<string> {
  const version = await project.declaredVersion(manager);
  if (manager === "yarn") {
    const isClassic = await project.usesYarnClassic();
    return isClassic ? `yarn@${version ?? "1"}` : `@yarnpkg/cli-dist@${version ?? "4"}`;
  }
  if (manager === "pnpm") return `pnpm@${version ?? ((await project.hasOldPnpmLock()) ? "8" : "10")}`;
  return `${manager}@${version ?? "1"}`;
}

/** The beginning of a lock file says which version wrote it, and a manifest that a person wrote is smaller. */
const readBytesMax = 1024 * 1024;

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

  /** Only pnpm reads pnpm-workspace.yaml: npm would not find the members that it lists. */
  async usualManager(): Promise<Manager> {
    return (await this.#read("pnpm-workspace.yaml")) === "" ? "npm" : "pnpm";
  }

  async declaredVersion(manager: Manager): Promise<string | null> {
    const { packageManager } = await this.#manifest();
    return new RegExp(`^${manager}@(\\d+\\.\\d+\\.\\d+[\\w.-]*)`).exec(stringOrNull(packageManager) ?? "")?.[1] ?? null;
  }

  async isYarnClassic(): Promise<boolean> {
    return !/^__metadata:/m.test(await this.#read("yarn.lock"));
  }

  /** Returns whether the declared version is 1, or otherwise the one that wrote the lock file. */
  async usesYarnClassic(): Promise<boolean> {
    const version = await this.declaredVersion("yarn");
    if (version !== null) return version.startsWith("1.");
    return this.isYarnClassic();
  }

  /** Returns whether an installed Yarn 1 would refuse the project: it only hands over to a newer one in the project. */
  async needsNewYarn(): Promise<boolean> {
    return !(await this.usesYarnClassic()) && !(await this.#hasOwnYarn());
  }

  /** Returns whether Yarn 1 does the work, and does not hand over to a newer one in the project. */
  async runsYarnClassic(): Promise<boolean> {
    return (await this.usesYarnClassic()) && !(await this.#hasOwnYarn());
  }

  async #hasOwnYarn(): Promise<boolean> {
    return /^yarnPath:/m.test(await this.#read(".yarnrc.yml"));
  }

  async hasDevEngines(): Promise<boolean> {
    return (await this.#manifest()).devEngines !== undefined;
  }

  /** Returns whether the workspace of this directory has a member. @param member its directory, relative to this one. */
  async hasMember(member: string): Promise<boolean> {
    const [manifest, pnpmWorkspace] = [await this.#read("package.json"), await this.#read("pnpm-workspace.yaml")];
    return hasNodeMember(member, { manifest, pnpmWorkspace });
  }

  /** Returns the number of members, including the root, that pnpm-lock.yaml lists under `importers`. */
  async countPnpmMembers(): Promise<number> {
    const [, members = ""] = /^importers:\n((?:\n| .*\n)*)/m.exec(await this.#read("pnpm-lock.yaml")) ?? [];
    return members.match(/^ {2}\S.*:$/gm)?.length ?? 0;
  }

  async hasOldPnpmLock(): Promise<boolean> {
    return /^lockfileVersion: '?[56]/m.test(await this.#read("pnpm-lock.yaml"));
  }

  async #manifest(): Promise<{
    packageManager?: unknown;
    devEngines?: { packageManager?: { name?: string } };
  }> {
    try {
      const manifest: unknown = JSON.parse(await this.#read("package.json"));
      return typeof manifest === "object" && manifest !== null ? manifest : {};
    } catch {
      return {}; // the package manager reports what is wrong with it
    }
  }

  /** Reads the beginning of a file; "" when there is none. */
  #read(name: string): Promise<string> {
    return text(createReadStream(path.join(this.#directory, name), { end: readBytesMax - 1 })).catch(() => "");
  }
}

const stringOrNull = (value: unknown) => (typeof value === "string" ? value : null);
