import { access, readFile, realpath } from "node:fs/promises";
import path from "node:path";
import { BuildFailure } from "../failure.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { installCommand } from "./install-command.ts";
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
    const isProject = member === path.posix.normalize(directory);
    if (!isProject && manifest.scripts?.["build"] !== undefined && !(await isBuilt(path.join(root, member), manifest)))
      ordered.push(member);
  };
  await visit(path.posix.normalize(directory));
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
      const isSibling = inside !== "" && !inside.startsWith("../") && !inside.split("/").includes("node_modules");
      return isSibling ? inside : null;
    }
    if (at === ".") return null;
  }
}

/** Whether one of the files that the package offers to importers exists. Builds make them in one go. */
async function isBuilt(directory: string, { main, module, types, bin, exports }: Manifest): Promise<boolean> {
  const files = [main, module, types, ...stringsOf(exports), ...stringsOf(bin)].filter(isFileName);
  if (files.length === 0) return false;
  for (const file of files) if (await isFile(path.join(directory, file))) return true;
  return false;
}

const isFileName = (file: unknown): file is string =>
  typeof file === "string" && !file.includes("*") && !file.endsWith("package.json");

function stringsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(stringsOf) : [];
}

const isFile = (file: string) =>
  access(file).then(
    () => true,
    () => false,
  );

async function readManifest(directory: string): Promise<Manifest> {
  try {
    const manifest: unknown = JSON.parse(await readFile(path.join(directory, "package.json"), "utf8"));
    return typeof manifest === "object" && manifest !== null ? manifest : {};
  } catch {
    return {}; // the package manager reports what is wrong with it
  }
}
