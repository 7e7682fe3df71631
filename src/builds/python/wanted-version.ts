import path from "node:path";
import type { ProjectReader } from "../../domain/detection/project-sources.ts";
import type { PythonProject } from "../detect/langgraph-config.ts";
import type { CommandProject, PythonRequest } from "../detect/pierhead-config.ts";
import { projectReader } from "../detect/project-reader.ts";
import { BuildFailure } from "../failure.ts";
import { isInRange } from "../version-range.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { findCondaEnvironment } from "./conda.ts";
import { pythonMinorMin } from "./settings.ts";

/** What a project says about its version of Python. */
export interface WantedPython {
  /** `3.12`; null: no minor version is named. */
  version: string | null;
  /** The setting or file that names the version. */
  from: string;
  /** Whether another version may be used when this one is missing: `.python-version` is for the author's own machine. */
  isPreference: boolean;
  /** All must be satisfied. `range` as in the file, such as `>=3.11,<3.14`. */
  ranges: { range: string; from: string }[];
}

/** A server in Python that is not a LangGraph agent. */
export type PythonServer = CommandProject & { python: PythonRequest };

/** Returns the directories with the project's packages, and the setting that may name a version. */
function placesOf(project: PythonProject | PythonServer): { packageDirs: string[]; from: string } {
  const { directory, configPath } = project;
  if (project.kind === "command") return { packageDirs: [directory], from: `python in ${configPath}` };
  const { localDirs, uvProject } = project.python;
  const packageDirs = [directory, ...localDirs, ...(uvProject === null ? [] : [uvProject.directory])];
  return { packageDirs, from: "python_version" };
}

/** Files beside the packages that name a version: pyenv's and uv's, and Heroku's. */
const versionFiles = [".python-version", "runtime.txt"];

/**
 * Reads the version of Python that a project needs: the one that its configuration names, otherwise that of a `.python-version`,
 * `runtime.txt`, Pipfile, environment of conda or Dockerfile; and `requires-python`, or Poetry's `python`, of its packages.
 * @throws BuildFailure `Unsupported` when only versions that no agent server runs on are allowed
 */
export async function wantedPython(
  { sourceDir, log }: { sourceDir: string; log: Pick<BuildContext["log"], "say"> },
  project: PythonProject | PythonServer,
): Promise<WantedPython> {
  const { python } = project;
  const { directory } = project;
  const { packageDirs, from: setting } = placesOf(project);
  const { read } = projectReader(sourceDir, ".");
  const ranges: WantedPython["ranges"] = [];
  for (const one of new Set(packageDirs)) {
    const file = path.posix.join(one, "pyproject.toml");
    const range = requiredRange((await read(file)) ?? "");
    if (range !== null) ranges.push({ range, from: file });
  }
  for (const { range, from } of ranges) {
    if (minors.some((minor) => isVersionIn(`3.${minor}.99`, range) || isVersionIn(`3.${minor}.0`, range))) continue;
    throw new BuildFailure(
      "Unsupported",
      `${from} requires Python ${range}, but the agent server needs Python 3.${pythonMinorMin} or newer. Change requires-python and deploy again.`,
    );
  }
  if (python.version !== null) {
    const { version } = python;
    const wrong = ranges.find(
      ({ range }) => !isVersionIn(`${version}.99`, range) && !isVersionIn(`${version}.0`, range),
    );
    if (wrong === undefined) return { version, from: setting, isPreference: false, ranges };
    // With the named version, the installation could only fail. The oldest allowed one is nearest to what its author meant.
    const minor = minors.find((one) => ranges.every(({ range }) => isVersionIn(`3.${one}.99`, range)));
    if (minor !== undefined) {
      log.say(`Note: ${setting} names Python ${version}, but ${wrong.from} requires ${wrong.range}: using 3.${minor}.`);
      return { version: `3.${minor}`, from: wrong.from, isPreference: true, ranges };
    }
  }
  const directories = [...new Set([...packageDirs, "."])];
  for (const file of directories.flatMap((one) => versionFiles.map((name) => path.posix.join(one, name)))) {
    const minor = /^(?:cpython-|python-?)?3\.(\d{1,2})\b/m.exec((await read(file)) ?? "")?.[1];
    if (minor === undefined) continue;
    if (Number(minor) >= pythonMinorMin) return { version: `3.${minor}`, from: file, isPreference: true, ranges };
    log.say(`Note: ${file} names Python 3.${minor}, but the agent server needs Python 3.${pythonMinorMin} or newer.`);
  }
  const preferred = (await preferredByPipfile(read, directory)) ?? (await preferredByConda(sourceDir, directory));
  return { ...(preferred ?? (await preferredByImage(read, directory)) ?? notNamed), ranges };
}

const notNamed = { version: null, from: "", isPreference: false };

/** Reads the version of the Python image in a Dockerfile, or of an image of uv with Python: the author runs the project with it. */
async function preferredByImage(read: ProjectReader["read"], directory: string) {
  const from = path.posix.join(directory, "Dockerfile");
  const form =
    /^FROM[ \t]+(?:--platform=\S{1,100}[ \t]+)?(?:\S{0,200}\/)?(?:python:|uv:(?:[\w.]{1,40}-)?python)(3\.\d{1,2})\b/im;
  const [, version] = form.exec((await read(from)) ?? "") ?? [];
  const isSupported = version !== undefined && Number(version.slice(2)) >= pythonMinorMin;
  return isSupported ? { version, from, isPreference: true } : null;
}

async function preferredByPipfile(read: ProjectReader["read"], directory: string) {
  const requires = sectionOf((await read(path.posix.join(directory, "Pipfile"))) ?? "", "requires");
  const [, version] = /^[ \t]*python(?:_full)?_version[ \t]*=[ \t]*["'](3\.\d{1,2})\b/m.exec(requires) ?? [];
  const isSupported = version !== undefined && Number(version.slice(2)) >= pythonMinorMin;
  return isSupported ? { version, from: "Pipfile", isPreference: true } : null;
}

async function preferredByConda(sourceDir: string, directory: string) {
  const conda = await findCondaEnvironment(sourceDir, directory);
  const isSupported = conda !== null && Number(conda.pythonVersion?.slice(2) ?? 0) >= pythonMinorMin;
  return isSupported ? { version: conda.pythonVersion, from: conda.file, isPreference: true } : null;
}

/** Versions that exist, for the question whether a range allows any that the agent server runs on. */
const minors = Array.from({ length: 10 }, (_, index) => pythonMinorMin + index);

/** Returns whether a version satisfies everything the project says about it, apart from its named version. */
export const isAllowed = ({ ranges }: WantedPython, version: string) =>
  ranges.every(({ range }) => isVersionIn(version, range));

/** Reads `requires-python` of a pyproject.toml, or the `python` of Poetry's dependencies. A range has at most 200 characters. */
function requiredRange(pyproject: string): string | null {
  const project = sectionOf(pyproject, "project");
  const poetry = sectionOf(pyproject, "tool.poetry.dependencies");
  const found = /^[ \t]*requires-python[ \t]*=[ \t]*["']([^"'\n]{1,200})["']/m.exec(project)?.[1];
  return found ?? /^[ \t]*python[ \t]*=[ \t]*["']([^"'\n]{1,200})["']/m.exec(poetry)?.[1] ?? null;
}

function sectionOf(toml: string, name: string): string {
  const lines = toml.split(/\r?\n/);
  const start = lines.findIndex((line) => line.replaceAll(/\s/g, "") === `[${name}]`);
  if (start === -1) return "";
  const length = lines.slice(start + 1).findIndex((line) => /^\s*\[/.test(line));
  return lines.slice(start + 1, length === -1 ? undefined : start + 1 + length).join("\n");
}

/** Returns whether a version is in a range of PEP 440, or of Poetry, whose `^` and `~` npm has as well. */
export function isVersionIn(version: string, range: string): boolean {
  const parts = range.split(",").map((part) => part.trim());
  const excluded = parts.filter((part) => part.startsWith("!="));
  if (excluded.some((part) => isInRange(version, part.slice(2).trim().replace(/\.\*$/, "")))) return false;
  const others = parts.filter((part) => !part.startsWith("!=")).map(toNpm);
  return isInRange(version, others.join(" ").trim() || "*");
}

function toNpm(part: string): string {
  const [, compatible] = /^~=\s*(.+)$/.exec(part) ?? [];
  // `~=3.11` allows 3.12 and `~=3.11.2` does not.
  if (compatible !== undefined) return compatible.split(".").length <= 2 ? `>=${compatible} <4` : `~${compatible}`;
  return part.replace(/^={2,3}\s*/, "").replace(/\.\*$/, "");
}
