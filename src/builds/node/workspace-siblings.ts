import { readFile, realpath, stat } from "node:fs/promises";
import path from "node:path";
import { BuildFailure } from "../failure.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { installCommand, packageDirectory } from "./install-command.ts";
import { runAll } from "./run-all.ts";

interface Manifest {
  name?: string;
  scripts?: Record<string, string>;
  main?: unknown;
  module?: unknown;
  types?: unknown;
  bin?: unknown;
  exports?: unknown;
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

/**
 * Builds the packages of the workspace on which a project depends and which are not built yet, each after its own dependencies. A
 * package without a build script, or whose entry points exist, is left as it is. A build that fails is noted, because the project
 * may need only another part of that package.
 * @param directory of the project, relative to the root of the source. Its packages are installed.
 */
export async function buildSiblings(context: BuildContext, directory: string): Promise<void> {
  const { sourceDir, env, log, signal } = context;
  const siblings = await unbuiltSiblings(sourceDir, directory);
  for (const cwd of siblings) {
    const install = await installCommand(sourceDir, cwd, env["PATH"] ?? "");
    log.say(`The project depends on ${cwd} of its workspace, which is not built yet: building it first.`);
    try {
      await runAll(
        context,
        [{ argv: [...(install?.manager ?? ["npm"]), "run", "build"], cwd, env: {} }],
        "BuildFailed",
      );
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof BuildFailure) || error.reason === "DiskFull") throw error;
      log.say(`Note: the build of ${cwd} failed. The build goes on, because the project may not need that part of it.`);
    }
  }
}

/** Returns the directories of the packages to build, dependencies first, relative to the root of the source. */
export async function unbuiltSiblings(sourceDir: string, directory: string): Promise<string[]> {
  const root = await realpath(sourceDir);
  const project = (await packageDirectory(sourceDir, directory)) ?? path.posix.normalize(directory);
  const seen = new Set<string>();
  const ordered: string[] = [];
  const visit = async (member: string): Promise<void> => {
    if (seen.has(member)) return;
    seen.add(member);
    const manifest = await readManifest(path.join(root, member));
    for (const name of dependenciesOf(manifest)) {
      const sibling = await linkedInSource(root, member, name);
      if (sibling !== null) await visit(sibling);
    }
    if (
      member !== project &&
      manifest.scripts?.["build"] !== undefined &&
      !(await isBuilt(path.join(root, member), manifest))
    )
      ordered.push(member);
  };
  await visit(project);
  return ordered;
}

const dependenciesOf = ({ dependencies, devDependencies, peerDependencies }: Manifest) =>
  Object.keys({ ...dependencies, ...peerDependencies, ...devDependencies });

/** Returns the directory of a package that is a link into the source, as package managers install members of a workspace. */
async function linkedInSource(root: string, member: string, name: string): Promise<string | null> {
  for (let at = member; ; at = path.posix.dirname(at)) {
    const found = await realpath(path.join(root, at, "node_modules", name)).catch(() => null);
    if (found !== null) {
      const inside = path.relative(root, found).split(path.sep).join("/");
      const isSibling = inside !== "" && !/^\.\.(?:\/|$)/.test(inside) && !inside.split("/").includes("node_modules");
      return isSibling ? inside : null;
    }
    if (at === ".") return null;
  }
}

/**
 * Whether every file that the package offers to importers exists. Types often name the source, and a program in `bin` is often no
 * more than a line that loads what the build makes: they count only in a package that offers nothing else.
 */
export async function isBuilt(directory: string, { main, module, types, bin, exports }: Manifest): Promise<boolean> {
  const imported = [main, module, ...filesOf(exports)].filter(isFileName);
  const files = imported.length > 0 ? imported : [types, ...filesOf(bin)].filter(isFileName);
  for (const file of files) if (!(await exists(path.join(directory, file)))) return false;
  return files.length > 0;
}

const isFileName = (file: unknown): file is string =>
  typeof file === "string" && !file.includes("*") && !file.endsWith("package.json");

/** Conditions of `exports` that name sources, which no server loads. */
const sourceConditions = new Set(["types", "development", "source"]);
const exportsDepthMax = 10;

function filesOf(value: unknown, depth = 0): string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null || depth >= exportsDepthMax) return [];
  return Object.entries(value).flatMap(([key, one]) => (sourceConditions.has(key) ? [] : filesOf(one, depth + 1)));
}

/** Node also takes `main` without the ending of the file. */
async function exists(file: string): Promise<boolean> {
  for (const one of [file, `${file}.js`, `${file}.cjs`]) {
    const found = await stat(one).catch(() => null);
    if (found?.isFile()) return true;
    if (found?.isDirectory()) return exists(path.join(file, "index.js"));
  }
  return false;
}

export async function readManifest(directory: string): Promise<Manifest> {
  try {
    const manifest: unknown = JSON.parse(await readFile(path.join(directory, "package.json"), "utf8"));
    return typeof manifest === "object" && manifest !== null ? manifest : {};
  } catch {
    return {}; // the package manager reports what is wrong with it
  }
}
