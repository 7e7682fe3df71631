import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { tomlSection, tomlString } from "../../domain/detection/toml-text.ts";
import { BuildFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { lockConstraints } from "./locked-versions.ts";
import { onlyBinary, type ServerRequirements } from "./python-requirements.ts";

/**
 * Uses the versions of a uv.lock beside the project or above it, in the root of its workspace.
 * @param directory of the project, relative to the root of the source.
 * @param fromProject returns what the project itself allows, for a lock file that cannot be used.
 * @returns null: there is no uv.lock, or no pyproject.toml beside the project.
 */
export async function fromUvLock(
  context: BuildContext,
  {
    directory,
    adds,
    uv,
    fromProject,
  }: {
    directory: string;
    adds: readonly string[];
    uv: string;
    fromProject: () => Promise<ServerRequirements | null>;
  },
): Promise<ServerRequirements | null> {
  const { sourceDir } = context;
  let root = path.posix.normalize(directory);
  while (!(await isFileInside(sourceDir, path.posix.join(root, "uv.lock")))) {
    if (root === ".") return null;
    root = path.posix.dirname(root);
  }
  if (!(await isFileInside(sourceDir, path.posix.join(directory, "pyproject.toml")))) return null;
  const exported = path.join(path.dirname(sourceDir), "uv-requirements.txt");
  const keep = (other: ServerRequirements, locked: string[], python: string, binaries: readonly string[] = []) =>
    keepFitting(context, other, { directory, adds, uv, python, binaries, locked });
  const withoutLock = async () => {
    const other = await fromProject();
    const locked = lockConstraints(await readFile(path.join(sourceDir, root, "uv.lock"), "utf8"));
    return other && { ...other, withKept: (python: string) => keep(other, locked, python) };
  };
  const covered = await exportLock(context, { directory, root, uv, exported });
  if (covered === null) return withoutLock();
  const text = await readFile(exported, "utf8");
  // uv names the members of a workspace relative to its root, and the project itself as `.`.
  const locals = [...text.matchAll(localLines)].map((match) => match[1] ?? ".");
  const gone = await missingPackages(sourceDir, root, locals);
  if (gone.length > 0) {
    context.log.say(
      `uv.lock names packages that the source does not have: ${gone.join(", ")}. Installing what the project allows, with the versions of uv.lock that still fit.`,
    );
    return withoutLock();
  }
  const isProject = (local: string) => path.posix.join(root, local) === path.posix.normalize(directory);
  const alone = path.join(path.dirname(sourceDir), "uv-requirements-alone.txt");
  await writeFile(
    alone,
    text.replaceAll(localLines, (line, local: string) => (isProject(local) ? "" : line)),
  );
  const found: ServerRequirements = {
    argv: ["--requirement", exported, ...adds],
    withoutProject: locals.some(isProject) ? ["--requirement", alone, ...adds] : null,
    unlocked: async (python, binaries) => {
      const other = await fromProject();
      return other && keep(other, pins(text), python, binaries);
    },
    lock: "uv.lock",
    packageDirs: locals.map((local) => path.posix.join(root, local)),
    cwd: root,
    because: `Found uv.lock${root === path.posix.normalize(directory) ? "" : ` in ${root === "." ? "the root of the source" : root}`}.`,
    identity: [text, adds],
    isShareable: locals.length === 0,
  };
  return {
    ...found,
    unlocked: (python, binaries) => fromLockedFiles(context, { found, covered, uv, python, binaries }),
  };
}

/** Lines of exported requirements that name a directory of the source, with the directory. */
const localLines = /^(?:-e |--editable )?(\.[^\s;]*).*$/gm;

/** Installs the files that a uv.lock names, also those of versions that the package index does not list any more, as `uv sync` does. */
async function fromLockedFiles(
  context: BuildContext,
  given: { found: ServerRequirements; covered: Covered; uv: string; python: string; binaries: readonly string[] },
): Promise<ServerRequirements | null> {
  const { found, covered, uv, python, binaries } = given;
  const files = path.join(path.dirname(context.sourceDir), "pylock.toml");
  const { cwd, more } = covered;
  const args = ["export", "--frozen", "--no-dev", "--no-emit-local", "--quiet", "--format", "pylock.toml", ...more];
  const argv = [uv, ...args, "--output-file", files];
  try {
    await runCommand(context, { argv, shown: ["uv", ...args], cwd, env: {} }, "InstallFailed");
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    return (await found.unlocked?.(python, binaries)) ?? null;
  }
  return { ...found, because: "Installing the files that uv.lock names.", first: ["--requirement", files] };
}

/** Returns the directories that a lock file names as packages but that no longer contain one. */
async function missingPackages(sourceDir: string, root: string, locals: readonly string[]): Promise<string[]> {
  const found = await Promise.all(
    locals.map(async (local) => {
      const has = (name: string) => isFileInside(sourceDir, path.posix.join(root, local, name));
      return (await has("pyproject.toml")) || (await has("setup.py")) ? [] : [local];
    }),
  );
  return found.flat();
}

/** Returns the requirements that pin a version. */
const pins = (text: string): string[] => text.match(/^[\w.-]+(?:\[[^\]\n]*\])?==[^\s;]+/gm) ?? [];

/** Constrains what a project allows to the locked versions that still fit it. Without an answer of uv, none of them is kept. */
async function keepFitting(
  context: BuildContext,
  other: ServerRequirements,
  given: {
    directory: string;
    adds: readonly string[];
    uv: string;
    python: string;
    binaries: readonly string[];
    locked: readonly string[];
  },
): Promise<ServerRequirements> {
  const at = (name: string) => path.join(path.dirname(context.sourceDir), name);
  const [added, kept] = [at("added-requirements.in"), at("kept-versions.txt")];
  await writeFile(added, given.adds.map((one) => `${one}\n`).join(""));
  const { locked } = given;
  // uv prefers the versions in the file to which it writes.
  await writeFile(kept, locked.map((line) => `${line}\n`).join(""));
  const options = ["--quiet", "--no-header", "--no-annotate", "--python", given.python, ...onlyBinary(given.binaries)];
  const args = ["pip", "compile", ...options, "pyproject.toml", added];
  const shown = ["uv", "pip", "compile", "pyproject.toml"];
  const argv = [given.uv, ...args, "--output-file", kept];
  try {
    await runCommand(context, { argv, shown, cwd: given.directory, env: {} }, "InstallFailed");
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    return other;
  }
  const lines = pins(await readFile(kept, "utf8"));
  await writeFile(kept, lines.map((line) => `${line.replace(/\[.*\]/, "")}\n`).join(""));
  const same = lines.filter((line) => locked.includes(line)).length;
  return {
    ...other,
    unlocked: async () => other,
    hasKept: true,
    lock: "uv.lock",
    argv: [...other.argv, "--constraint", kept],
    withoutProject: other.withoutProject && [...other.withoutProject, "--constraint", kept],
    because: `${other.because} ${same} of the ${locked.length} versions in uv.lock still fit and are kept.`,
    identity: [...other.identity, lines],
  };
}

/** The directory and the options with which uv exports the versions of a project. */
interface Covered {
  cwd: string;
  more: string[];
}

/**
 * Writes the locked versions of a project to a file.
 * @returns null when the lock file does not cover it
 */
async function exportLock(
  context: BuildContext,
  { directory, root, uv, exported }: { directory: string; root: string; uv: string; exported: string },
): Promise<Covered | null> {
  const run = async (cwd: string, more: string[]): Promise<Covered> => {
    const options = ["--frozen", "--no-dev", "--no-hashes", "--no-header", "--no-annotate", "--quiet"];
    const args = ["export", ...options, ...more];
    const argv = [uv, ...args, "--output-file", exported];
    await runCommand(context, { argv, shown: ["uv", ...args], cwd, env: {} }, "InstallFailed");
    return { cwd, more };
  };
  const failed = (error: unknown) => {
    if (!(error instanceof BuildFailure)) throw error;
    return null;
  };
  const found = await run(directory, []).catch(failed);
  if (found !== null) return found;
  if (root === path.posix.normalize(directory)) {
    context.log.say(
      "The uv.lock does not fit the project any more. Installing the versions that the project itself allows.",
    );
    return null;
  }
  // uv looks no further than the nearest project above, which may be another member of the workspace.
  const text = await readFile(path.join(context.sourceDir, directory, "pyproject.toml"), "utf8");
  const name = tomlString(tomlSection(text, "project"), "name");
  const ofMember = name === null ? null : await run(root, ["--package", name]).catch(failed);
  if (ofMember !== null) return ofMember;
  context.log.say(
    "The uv.lock above the project does not cover it. Installing the versions that the project itself allows.",
  );
  return null;
}
