import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { firstNames } from "../../base/first-names.ts";
import type { CondaEnvironment } from "../../domain/detection/conda-packages.ts";
import { tomlList, tomlSection } from "../../domain/detection/toml-text.ts";
import type { CommandProject, PythonRequest } from "../detect/pierhead-config.ts";
import { BuildFailure } from "../failure.ts";
import { isFileInside, readInside } from "../sources/inside.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { condaFailure, findCondaEnvironment, pipArguments, refuseOtherChannels, sayCondaPackages } from "./conda.ts";
import { findLock, lockConstraints, pipfileLockRequirements } from "./locked-versions.ts";
import { poetryRequirements } from "./poetry.ts";
import type { ServerRequirements } from "./python-requirements.ts";
import { alsoListed, requirementsBeside } from "./requirements-beside.ts";
import { fromUvLock } from "./uv-lock.ts";

const namedMax = 8;

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
    const locked = await fromUvLock(context, {
      ...{ directory, adds, uv },
      fromProject: () => fromPyproject(context, { directory, adds, uv }),
    });
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
  const read = (name: string) => readInside(sourceDir, path.posix.join(directory, name));
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
