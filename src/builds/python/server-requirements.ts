import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { firstNames } from "../../base/first-names.ts";
import type { CondaEnvironment } from "../../domain/detection/conda-packages.ts";
import { tomlList, tomlSection, tomlString } from "../../domain/detection/toml-text.ts";
import type { CommandProject, PythonRequest } from "../detect/pierhead-config.ts";
import { BuildFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { condaFailure, findCondaEnvironment, pipArguments, refuseOtherChannels, sayCondaPackages } from "./conda.ts";
import { findLock, lockConstraints, pipfileLockRequirements } from "./locked-versions.ts";
import { poetryRequirements } from "./poetry.ts";
import { alsoListed, requirementsBeside } from "./requirements-beside.ts";

const namedMax = 8;

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

/** Lines that refer to other files, or to an address whose content may change. */
const elsewhere =
  /^\s*(-r|-c|-e|--requirement|--constraint|--editable|\.|\/|\w+\+\w+:|https?:)|@\s*\w+(\+\w+)?:|\bfile:/m;

/**
 * Finds the requirements of a Python server: the named file, or else a uv.lock, pyproject.toml, requirements.txt or
 * Pipfile.
 * @throws BuildFailure `ConfigInvalid`
 */
export async function findServerRequirements(
  context: BuildContext,
  { configPath, directory, python }: CommandProject & { python: PythonRequest },
  uv: string | null,
): Promise<ServerRequirements> {
  const { sourceDir } = context;
  const { requirements: named, adds } = python;
  const inDirectory = (file: string) => path.posix.join(directory, file);
  const has = (file: string) => isFileInside(sourceDir, inDirectory(file));
  if (named !== null) {
    if (!(await isFileInside(sourceDir, named)))
      throw new BuildFailure(
        "ConfigInvalid",
        `${configPath}: python.requirements names '${named}', which is not a file of the source.`,
      );
    if (!named.endsWith("pyproject.toml"))
      return fromFile(sourceDir, directory, path.posix.relative(directory, named), adds);
  }
  if (named === null && uv !== null) {
    const locked = await fromUvLock(context, { directory, adds, uv });
    if (locked !== null) return locked;
  }
  if (named !== null || (await has("pyproject.toml"))) {
    const found = await fromPyproject(context, { directory, adds, uv, isNamed: named !== null });
    if (found !== null) return found;
  }
  for (const file of ["requirements.txt", "requirements/base.txt", "requirements/production.txt"])
    if (await has(file)) return fromFile(sourceDir, directory, file, adds);
  if (await has("setup.py")) return fromSetup(directory, adds);
  if (await has("Pipfile")) return fromPipfile(context, directory, adds);
  const conda = await findCondaEnvironment(sourceDir, directory);
  if (conda !== null) return fromConda(context, conda, { directory, adds });
  return {
    argv: [...adds],
    withoutProject: null,
    cwd: directory,
    because: "There is no file with Python requirements.",
    identity: [...adds],
    isShareable: true,
  };
}

async function fromFile(
  sourceDir: string,
  directory: string,
  file: string,
  adds: readonly string[],
): Promise<ServerRequirements> {
  const text = await readFile(path.join(sourceDir, directory, file), "utf8");
  return {
    argv: ["--requirement", file, ...adds],
    withoutProject: null,
    cwd: directory,
    because: `Installing ${file}.`,
    identity: [text, adds],
    isShareable: !elsewhere.test(text),
  };
}

/** Installs the versions of a Pipfile.lock, or else what the Pipfile allows. */
async function fromPipfile(
  { sourceDir }: BuildContext,
  directory: string,
  adds: readonly string[],
): Promise<ServerRequirements> {
  const read = (name: string) => readFile(path.join(sourceDir, directory, name), "utf8").catch(() => null);
  const [text, lock] = [(await read("Pipfile")) ?? "", await read("Pipfile.lock")];
  const allowed = poetryRequirements(tomlSection(text, "packages"));
  const ofLines = async (lines: string[], name: string): Promise<ServerRequirements> => {
    const file = path.join(path.dirname(sourceDir), `${name.replace(".", "-").toLowerCase()}-requirements.txt`);
    await writeFile(file, lines.map((line) => `${line}\n`).join(""));
    return {
      argv: ["--requirement", file, ...adds],
      withoutProject: null,
      cwd: directory,
      because: `Installing the packages in ${name}.`,
      identity: [lines, adds],
      isShareable: !elsewhere.test(lines.join("\n")),
    };
  };
  if (lock === null) return ofLines(allowed, "Pipfile");
  const locked = await ofLines(pipfileLockRequirements(lock), "Pipfile.lock");
  return { ...locked, lock: "Pipfile.lock", unlocked: () => ofLines(allowed, "Pipfile") };
}

/** Installs what an environment lists for pip, and from PyPI what it lists for conda. */
async function fromConda(
  { sourceDir, log }: BuildContext,
  conda: CondaEnvironment,
  { directory, adds }: { directory: string; adds: readonly string[] },
): Promise<ServerRequirements> {
  refuseOtherChannels(conda);
  sayCondaPackages(log, conda);
  const ofPackages = async (packages: CondaEnvironment["packages"], name: string): Promise<ServerRequirements> => {
    const file = path.join(path.dirname(sourceDir), name);
    const { argv, lines } = pipArguments({ pip: conda.pip, packages });
    await writeFile(file, lines.map((line) => `${line}\n`).join(""));
    return {
      argv: ["--requirement", file, ...argv, ...adds],
      withoutProject: null,
      cwd: directory,
      because: `Installing the packages${packages.length === 0 ? " for pip" : ""} in ${conda.file}.`,
      identity: [lines, argv, adds],
      isShareable: argv.length === 0 && !elsewhere.test(lines.join("\n")),
      explain: (logged) => condaFailure(conda, logged),
    };
  };
  const found = await ofPackages(conda.packages, "conda-requirements.txt");
  const anyVersion = conda.packages.map(({ name, line }) => ({
    name,
    line: /^[\w.-]+(?:\[[^\]]*\])?/.exec(line)?.[0] ?? name,
  }));
  if (conda.packages.every(({ line }, at) => line === anyVersion[at]?.line)) return found;
  // PyPI does not have all versions of conda.
  return {
    ...found,
    lock: conda.file,
    isOfConda: true,
    unlocked: () => ofPackages(anyVersion, "conda-any-version.txt"),
  };
}

const fromSetup = (directory: string, adds: readonly string[]): ServerRequirements => ({
  argv: ["--editable", ".", ...adds],
  withoutProject: null,
  cwd: directory,
  because: "Installing the project with its setup.py.",
  identity: ["setup.py", adds],
  isShareable: false,
});

/** Lines of exported requirements that name a directory of the source, with the directory. */
const localLines = /^(?:-e |--editable )?(\.[^\s;]*).*$/gm;

/** Uses the versions of a uv.lock beside the project or above it, in the root of its workspace. */
async function fromUvLock(
  context: BuildContext,
  { directory, adds, uv }: { directory: string; adds: readonly string[]; uv: string },
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
    const other = await fromPyproject(context, { directory, adds, uv });
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
      const other = await fromPyproject(context, { directory, adds, uv });
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

/** A line of a requirements.txt that a person wrote, with one version. */
const pinnedLine = /^[\w.-]+(?:\[[^\]\n]*\])?==/m;

/** Returns the requirements.txt beside a pyproject.toml if it names versions: its author runs the project with these. */
async function pinnedRequirements(sourceDir: string, directory: string): Promise<string | null> {
  const file = path.posix.join(directory, "requirements.txt");
  if (!(await isFileInside(sourceDir, file))) return null;
  return pinnedLine.test(await readFile(path.join(sourceDir, file), "utf8")) ? file : null;
}

/** Writes the versions of a poetry.lock, a pdm.lock, a requirements.txt, or without uv of a uv.lock, into a file of constraints. */
async function constraintsOf(
  { sourceDir }: BuildContext,
  { directory, uv, isNamed }: { directory: string; uv: string | null; isNamed: boolean },
) {
  const lock = await findLock(sourceDir, directory);
  const from = lock ?? (isNamed ? null : await pinnedRequirements(sourceDir, directory));
  if (from === null || (from.endsWith("uv.lock") && uv !== null)) return null;
  const text = await readFile(path.join(sourceDir, from), "utf8");
  const lines = from.endsWith(".lock")
    ? lockConstraints(text)
    : text.split("\n").flatMap((line) => {
        const [, name, version, marker = ""] = pinnedForm.exec(line) ?? [];
        return name === undefined ? [] : [`${name}${version}${marker.replace(/\s+#.*$/, "").trimEnd()}`];
      });
  const file = path.join(path.dirname(sourceDir), "python-constraints.txt");
  await writeFile(file, lines.map((line) => `${line}\n`).join(""));
  return { file, from, text, isByHand: lock === null };
}

/** A requirement of one version, whose marker may name other versions of Python or other systems. */
const pinnedForm = /^([\w.-]+)(?:\[[^\]\n]*\])?(==[^\s;\\]+)(\s*;[^\\\n]*)?/;

/**
 * Installs a project with its build system if it has one. Without one there is nothing to package, so only the dependencies
 * are installed and the server is imported from its directory.
 */
async function fromPyproject(
  context: BuildContext,
  {
    directory,
    adds,
    uv,
    isNamed = false,
  }: { directory: string; adds: readonly string[]; uv: string | null; isNamed?: boolean },
): Promise<ServerRequirements | null> {
  const text = await readFile(path.join(context.sourceDir, directory, "pyproject.toml"), "utf8");
  const project = tomlSection(text, "project");
  const poetry = tomlSection(text, "tool.poetry.dependencies");
  const isPackage = /^\s*\[build-system\]/m.test(text) && !/^\s*package-mode\s*=\s*false/m.test(text);
  // Only settings of tools, or a description of a project whose packages another file lists.
  if (!isPackage && tomlList(project, "dependencies").length === 0 && poetry === "") return null;
  const lines = [...tomlList(project, "dependencies"), ...poetryRequirements(poetry)];
  const file = path.join(path.dirname(context.sourceDir), "pyproject-requirements.txt");
  await writeFile(file, lines.map((line) => `${line}\n`).join(""));
  const locked = await constraintsOf(context, { directory, uv, isNamed });
  // uv also reads where packages come from, such as a directory beside the project.
  const hasSources =
    uv !== null && tomlList(project, "dependencies").length > 0 && /^\s*\[tool\.uv\.sources\b/m.test(text);
  const wanted = hasSources ? ["--requirement", "pyproject.toml"] : lines.length === 0 ? [] : ["--requirement", file];
  const beside = isPackage && lines.length === 0 ? await requirementsBeside(context, directory, project) : null;
  const listed = beside === null ? [] : ["--requirement", "requirements.txt"];
  const also = beside === null && !isNamed ? await alsoListed(context, directory, text) : null;
  const allowed = (constraints: string[], others: string[] = []): ServerRequirements => {
    const dependencies = [...wanted, ...listed, ...others, ...constraints, ...adds];
    const versions = constraints.length === 0 ? "" : ` Its versions come from ${locked?.from}.`;
    return {
      argv: isPackage ? ["--editable", ".", ...listed, ...others, ...constraints, ...adds] : dependencies,
      withoutProject: isPackage ? dependencies : null,
      cwd: directory,
      because: isPackage
        ? `Installing the project and the dependencies in its ${beside === null ? "pyproject.toml" : "requirements.txt"}.${versions}`
        : `Installing the dependencies in pyproject.toml.${versions} It has no [build-system], so the project runs from its directory.`,
      identity: [
        text,
        adds,
        constraints.length === 0 ? undefined : locked?.text,
        ...(beside === null ? [] : [beside]),
        ...(others.length === 0 ? [] : [also?.lines]),
      ],
      isShareable: !isPackage && !hasSources && !elsewhere.test([...lines, ...(also?.lines ?? [])].join("\n")),
    };
  };
  if (locked === null && also === null) return allowed([]);
  const constraints = locked === null ? [] : ["--constraint", locked.file];
  const lock = path.posix.basename(locked?.from ?? "requirements.txt");
  const mayBeOutdated = locked?.isByHand === true ? ({ mayBeOutdated: true } as const) : {};
  const alone: ServerRequirements = {
    ...allowed(constraints),
    lock,
    ...mayBeOutdated,
    unlocked: async () => allowed([]),
  };
  if (also === null) return alone;
  context.log.say(
    `${also.from} also lists ${firstNames(also.names, namedMax)}, which pyproject.toml does not. Installing them too. To avoid this note, add them to pyproject.toml.`,
  );
  const more = allowed(constraints, ["--requirement", also.file]);
  // The versions of a lock file stay.
  const unlocked = async () => (locked === null || locked.isByHand ? allowed([]) : alone);
  return { ...more, lock: also.from, mayBeOutdated: true, unlocked };
}
