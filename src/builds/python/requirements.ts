import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type { PythonProject } from "../detect/langgraph-config.ts";
import { BuildFailure } from "../failure.ts";
import { isDirectoryInside, isFileInside } from "../sources/inside.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { findCondaEnvironment, pipArguments, refuseOtherChannels, sayCondaPackages } from "./conda.ts";
import { findLock } from "./locked-versions.ts";

/** The packages to install for one project. */
export interface Requirements {
  /** Arguments of the installer, run in `cwd`. */
  argv: string[];
  /** Relative to the root of the source. */
  cwd: string;
  /** All values that decide what is installed: equal values mean equal environments. */
  identity: unknown[];
  /**
   * False when the result also depends on something unknown, such as a setup.py: then only builds of the same source share
   * it.
   */
  isShareable: boolean;
  /** A uv.lock, poetry.lock, pdm.lock or compiled requirements.txt whose versions apply, relative to the root of the source; null: none. */
  lock: string | null;
  /**
   * The published packages, which can be installed before the source is copied. `--dependencies-of FILE` stands for the
   * dependencies in a pyproject.toml. @see install.py
   */
  early: { argv: string[] /** Files it reads, relative to the root of the source. */; manifests: string[] };
}

/**
 * Converts the dependencies of a project to arguments of an installer. Directories with a pyproject.toml or setup.py are
 * installed as editable packages; other directories contribute their requirements.txt (contract 7.5).
 * @throws BuildFailure `ConfigInvalid` for a directory that does not exist
 */
export async function collectRequirements(
  context: BuildContext,
  project: PythonProject,
  uv: string | null = null,
): Promise<Requirements> {
  const { python, directory } = project;
  if (python.uvProject !== null) return collectFromUv(context, python.uvProject, uv ?? "uv");
  const collected: Requirements = {
    argv: [...python.packages],
    cwd: directory,
    identity: [...python.packages],
    isShareable: true,
    lock: null,
    early: { argv: python.packages.filter((one) => !isElsewhere(one)), manifests: [] },
  };
  if (python.packages.some((one) => isElsewhere(one))) collected.isShareable = false;
  for (const localDir of python.localDirs) {
    if (!(await isDirectoryInside(context.sourceDir, localDir))) {
      throw new BuildFailure(
        "ConfigInvalid",
        `${project.configPath}: dependencies names '${localDir}', which is not a directory of the source.`,
      );
    }
    await addLocal(context.sourceDir, localDir, collected);
  }
  const isDescribed = collected.argv.length > python.packages.length;
  const describing = isDescribed ? null : await addDependenciesBeside(context, project, collected);
  const dirs = isDescribed ? python.localDirs : [...python.localDirs, describing ?? directory];
  await addLock(context, dirs, collected);
  return collected;
}

/**
 * Adds the dependencies in the pyproject.toml or requirements.txt beside the configuration, or in the nearest directory above it, when
 * nothing that `dependencies` names describes any: such a project runs in its author's own environment.
 */
async function addDependenciesBeside(
  { sourceDir, log }: BuildContext,
  { directory, configPath }: PythonProject,
  collected: Requirements,
): Promise<string | null> {
  for (const file of manifestsAround(directory)) {
    if (!(await isFileInside(sourceDir, file))) continue;
    log.say(`The directories in dependencies of ${configPath} describe no packages: installing those of ${file}.`);
    const isProject = path.posix.basename(file) === "pyproject.toml";
    const place = path.posix.relative(directory, file);
    const argv = [isProject ? "--dependencies-of" : "--requirement", place.startsWith(".") ? place : `./${place}`];
    const text = await readFile(path.join(sourceDir, file), "utf8");
    collected.argv.push(...argv);
    collected.identity.push(text);
    if (text.split("\n").some(isElsewhere)) collected.isShareable = false;
    collected.early.argv.push(...argv);
    collected.early.manifests.push(file);
    return path.posix.dirname(file);
  }
  const conda = await findCondaEnvironment(sourceDir, directory);
  if (conda === null) return null;
  log.say(`The directories in dependencies of ${configPath} describe no packages: installing those of ${conda.file}.`);
  refuseOtherChannels(conda);
  sayCondaPackages(log, conda);
  const { argv, lines } = pipArguments(conda);
  const exported = path.join(path.dirname(sourceDir), "conda-requirements.txt");
  await writeFile(exported, lines.map((line) => `${line}\n`).join(""));
  collected.argv.push("--requirement", exported, ...argv);
  collected.identity.push(lines, argv);
  if (argv.length > 0 || lines.some(isElsewhere)) collected.isShareable = false;
  collected.early.argv.push("--requirement", exported);
  return null;
}

/** Returns the files that may describe packages: those of the directory, then those of each directory above it. */
function manifestsAround(directory: string): string[] {
  const at = path.posix.normalize(directory);
  const own = ["pyproject.toml", "requirements.txt"].map((name) => path.posix.join(at, name));
  return at === "." ? own : [...own, ...manifestsAround(path.posix.dirname(at))];
}

/** Finds the file that locks the versions of a local package. */
async function addLock({ sourceDir, log }: BuildContext, dirs: readonly string[], collected: Requirements) {
  for (const localDir of dirs) {
    if (!(await isFileInside(sourceDir, path.posix.join(localDir, "pyproject.toml")))) continue;
    const lock = await findLock(sourceDir, localDir);
    if (lock === null) continue;
    log.say(`Installing the versions in ${lock}.`);
    collected.lock = lock;
    collected.identity.push(await readFile(path.join(sourceDir, lock), "utf8"));
    collected.early.manifests.push(lock);
    return;
  }
}

async function addLocal(sourceDir: string, localDir: string, collected: Requirements): Promise<void> {
  const has = (name: string) => isFileInside(sourceDir, path.posix.join(localDir, name));
  const place = (name = "") => {
    const relative = path.posix.join(path.posix.relative(collected.cwd, localDir), name);
    return relative === "." ? "." : `./${relative}`;
  };
  const isPackage = (await has("pyproject.toml")) || (await has("setup.py"));
  if (!isPackage && !(await has("requirements.txt"))) return;
  collected.argv.push(...(isPackage ? ["--editable", place()] : ["--requirement", place("requirements.txt")]));
  const described = await describe(path.join(sourceDir, localDir), isPackage);
  collected.identity.push(localDir, described.identity);
  if (!described.isShareable) collected.isShareable = false;
  const manifest = isPackage ? "pyproject.toml" : "requirements.txt";
  if (!(await has(manifest)) || (!isPackage && !described.isShareable)) return;
  collected.early.argv.push(isPackage ? "--dependencies-of" : "--requirement", place(manifest));
  collected.early.manifests.push(path.posix.join(localDir, manifest));
}

/** Collects the requirements of a uv project. Its lock file names every version; workspace members appear as directories. */
async function collectFromUv(
  context: BuildContext,
  uvProject: { directory: string; package: string | null },
  uv: string,
): Promise<Requirements> {
  const cwd = uvProject.directory;
  const exported = path.join(path.dirname(context.sourceDir), "uv-requirements.txt");
  const ofPackage = uvProject.package === null ? [] : ["--package", uvProject.package];
  const options = ["--frozen", "--no-dev", "--no-hashes", "--no-header", "--no-annotate", "--quiet"];
  const args = ["export", ...options, ...ofPackage];
  const shown = ["uv", ...args];
  const argv = [uv, ...args, "--output-file", exported];
  await runCommand(context, { argv, shown, cwd, env: {} }, "InstallFailed");
  const text = await readFile(exported, "utf8");
  const locals = [...text.matchAll(/^(?:-e |--editable )?(\.\S*)/gm)].map((match) =>
    path.posix.join(cwd, match[1] ?? "."),
  );
  const early = path.join(path.dirname(exported), "uv-requirements-early.txt");
  const published = text.split("\n").filter((line) => !isElsewhere(line));
  await writeFile(early, published.join("\n"));
  const described = await Promise.all(locals.map((local) => describe(path.join(context.sourceDir, local), true)));
  return {
    argv: ["--requirement", exported],
    cwd,
    identity: [text, described.map(({ identity }) => identity)],
    isShareable: described.every(({ isShareable }) => isShareable),
    lock: null,
    early: { argv: ["--requirement", early], manifests: [] },
  };
}

/** Build backends that install an editable package by naming its directories, without running code of the package. */
const knownBackends =
  /build-backend\s*=\s*["'](setuptools\.build_meta|hatchling\.build|poetry\.core\.masonry\.api|flit_core\.buildapi|pdm\.backend|uv_build)["']/;

/**
 * Returns the values that decide how a local directory is installed: the files that describe it and, for a package, the
 * names of its modules, because backends discover packages automatically.
 */
async function describe(directory: string, isPackage: boolean): Promise<{ identity: unknown; isShareable: boolean }> {
  const names = await readdir(directory);
  const describing = isPackage ? /^(pyproject\.toml|setup\.(cfg|py)|uv\.lock|.*\.txt)$/ : /^requirements\.txt$/;
  const files = names.filter((name) => describing.test(name)).sort();
  const texts = await Promise.all(files.map((name) => readFile(path.join(directory, name), "utf8")));
  const isElsewhereToo = texts.some((text) => text.split("\n").some(isElsewhere));
  if (!isPackage) return { identity: texts, isShareable: !isElsewhereToo };
  const pyproject = texts[files.indexOf("pyproject.toml")] ?? "";
  const isPlain = !files.includes("setup.py") && (!/build-backend/.test(pyproject) || knownBackends.test(pyproject));
  const modules = [await listModules(directory), await listModules(path.join(directory, "src"))];
  return { identity: [files, texts, modules], isShareable: isPlain && !isElsewhereToo };
}

async function listModules(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  const modules = entries.filter((entry) =>
    entry.isDirectory() ? !entry.name.startsWith(".") : /\.py$/.test(entry.name),
  );
  return modules.map((entry) => entry.name).sort();
}

/** Forms of a line that refers to other files, or to an address whose content may change. */
const elsewhere = [
  /^\s*(-r|-c|-e|--requirement|--constraint|--editable)\b/,
  /^\s*(\.|\/|\w+(\+\w+)?:\/\/)/,
  /@\s*\w+(\+\w+)?:/,
  /\bfile:|\b(path|git)\s*=|^\s*dynamic\b.*dependencies/,
];

const isElsewhere = (line: string) => elsewhere.some((form) => form.test(line));
