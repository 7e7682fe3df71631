import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { BuildFailure } from "../failure.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { gitVersionVariables } from "./git-version.ts";
import { type Interpreter, withFittingPython } from "./interpreter.ts";
import { packagesDirName, sitePackages } from "./local-packages.ts";
import { onlyBinary, type ServerRequirements } from "./python-requirements.ts";
import { findServerRequirements } from "./server-requirements.ts";
import { type EnvironmentTools, makeEmptyEnvironment, sharedEnvironment } from "./shared-environment.ts";
import { findOrInstallUv, uvSettingsOf } from "./uv.ts";
import { type PythonServer, wantedPython } from "./wanted-version.ts";

/**
 * Returns the environment of a Python server that is not a LangGraph agent: the project's dependencies, without the project
 * itself. Builds with equal requirements share one environment.
 * @param artifactKey of this build; it names the environment if installing the requirements runs code of the project.
 * @returns its absolute directory
 * @throws BuildFailure `ToolchainFailed`, `InstallFailed`, `ConfigInvalid`
 */
export async function serverEnvironment(
  given: BuildContext,
  project: PythonServer,
  artifactKey: string,
): Promise<string> {
  const { uv, context } = await findOrInstallUv(given);
  const wanted = await wantedPython(context, project);
  const requirements = await findServerRequirements(context, project, uv);
  return withFittingPython(context, { wanted, uv }, async (interpreter) => {
    const environmentOf = async (chosen: ServerRequirements, binaries: string[]) => {
      const { identity, isShareable, cwd } = chosen;
      const settings = uv === null ? null : await uvSettingsOf(context, cwd);
      const what = [
        "server/2",
        cwd,
        identity,
        isShareable ? null : artifactKey,
        ...(settings === null ? [] : [settings]),
        ...(binaries.length === 0 ? [] : [binaries]),
      ];
      const plan = { requirements: chosen, interpreter, uv, binaries, projectDir: project.directory };
      return sharedEnvironment(context, plan, what, (draft, choose) =>
        installServer({ ...context, choose }, draft, plan),
      );
    };
    // Other versions need an environment of their own. The next build tries the first ones again.
    const attempt = async (chosen: ServerRequirements, binaries: string[]): Promise<string> => {
      try {
        return await environmentOf(chosen, binaries);
      } catch (error) {
        context.signal.throwIfAborted();
        const next =
          error instanceof BuildFailure ? await nextAttempt(context, { chosen, binaries, interpreter }) : null;
        if (next === null) {
          const explained = isUnsolvable(context) ? chosen.explain?.(context.log.lastLines(100)) : null;
          throw explained ?? error;
        }
        context.log.say(next.because);
        return await attempt(next.chosen, next.binaries).catch((later: unknown) => {
          // That no other version fits says less than why this one cannot be built.
          throw next.binaries.length > binaries.length && isUnsolvable(context) ? error : later;
        });
      }
    };
    return attempt((await requirements.withKept?.(interpreter.python)) ?? requirements, []);
  });
}

interface Attempt {
  chosen: ServerRequirements;
  /** Packages of which only versions without a build are installed. */
  binaries: string[];
  because: string;
}

/** Returns what to install after an attempt that failed; null: nothing else is possible. */
async function nextAttempt(
  context: BuildContext,
  { chosen, binaries, interpreter }: Omit<Attempt, "because"> & { interpreter: Interpreter },
): Promise<Attempt | null> {
  const name = findUnbuildable(context);
  if (name !== null && !binaries.includes(name) && binaries.length < binariesMax) {
    const because = `${name} cannot be built on this machine. Looking for a version of it that needs no build.`;
    return { chosen, binaries: [...binaries, name], because };
  }
  const isDoubtful = chosen.hasKept || chosen.mayBeOutdated || chosen.first !== undefined;
  if (!isUnsolvable(context) && !isDoubtful) return null;
  const other = await chosen.unlocked?.(interpreter.python, binaries);
  if (other == null) return null;
  const because = chosen.hasKept
    ? "Not all versions that were kept can be installed. Installing without them."
    : other.first !== undefined
      ? "The package index does not list all versions in uv.lock for this Python."
      : sayGivenUp(chosen);
  return { chosen: other, binaries, because };
}

/** Says why something else is installed after an attempt that failed. */
export const sayGivenUp = ({ lock, mayBeOutdated, isOfConda }: ServerRequirements) =>
  mayBeOutdated
    ? `Not all that ${lock} lists can be installed. Installing what pyproject.toml declares.`
    : isOfConda
      ? `PyPI does not have all versions in ${lock} for this Python. Installing the versions that it has.`
      : `The versions in ${lock} contradict the project, or do not exist any more. Installing the versions that the project itself allows. To fix all versions again, ${lockAgain(lock)}.`;

/** More packages that cannot be built are no accident. */
const binariesMax = 3;

/** How uv and pip name a published package that they cannot build. */
export const unbuildable =
  /Failed to (?:download and )?build `([\w.-]+)==|Failed building wheel for ([\w.-]+)|Failed to build '([\w.-]+)'/;

function findUnbuildable({ log }: BuildContext): string | null {
  const found = log.lastLines(100).map((line) =>
    unbuildable
      .exec(line)
      ?.slice(1)
      .find((name) => name !== undefined),
  );
  return found.find((name) => name !== undefined) ?? null;
}

interface Choosing extends BuildContext {
  /** Logs a decision, also in builds that reuse the environment. */
  choose(line: string): void;
}

interface Plan extends EnvironmentTools {
  requirements: ServerRequirements;
  /** Packages of which only versions without a build are installed. */
  binaries: readonly string[];
  /** Relative to the root of the source. */
  projectDir: string;
}

/** Installs the requirements. A project whose files do not have the form of a package runs from its directory. */
async function installServer(context: Choosing, draft: string, plan: Plan): Promise<void> {
  const { requirements } = plan;
  context.choose(requirements.because);
  const make = async (argv: string[]) => {
    await makeEmptyEnvironment(context, plan, draft);
    await installInto(context, draft, { ...plan, argv });
  };
  try {
    await make(requirements.argv);
  } catch (error) {
    const own = path.join(context.sourceDir, plan.projectDir);
    const isPackaging = context.log
      .lastLines(100)
      .some((line) => packagingErrors.test(line) || unbuilt.exec(line)?.[1] === own);
    if (!(error instanceof BuildFailure) || requirements.withoutProject === null || !isPackaging) throw error;
    context.choose(sayWithoutProject);
    await make(requirements.withoutProject);
  }
}

export const sayWithoutProject =
  "The project itself cannot be packaged. Installing only its dependencies and running it from its directory.";

/** How uv and pip report that there are no such versions, and that an address of a lock file does not exist any more. */
export const unsolvable =
  /No solution found|HTTP status client error \(404|404 Not Found|ResolutionImpossible|No matching distribution found|resolution-too-deep/;

const isUnsolvable = ({ log }: BuildContext) => log.lastLines(100).some((line) => unsolvable.test(line));

/** The command that writes a lock file again. */
const lockAgain = (lock = "uv.lock") =>
  lock === "requirements.txt"
    ? "compile requirements.txt again"
    : `run \`${lock.replace(".lock", " lock").replace("Pipfile", "pipenv")}\``;

/** What build backends say when the files of a project do not have the form of a package. */
export const packagingErrors =
  /Multiple top-level (packages|modules)|No file\/folder found for package|Unable to determine which files to ship|Expected a Python module at|package directory .* does not exist|not a valid editable requirement|Readme (path|file)|OSError: Readme/i;

/** How uv names the package that it cannot build. */
const unbuilt = /Failed to build `\S+ @ file:\/\/([^`]+)`/;

async function installInto(
  context: Choosing,
  draft: string,
  { requirements, uv, binaries, argv: wanted }: Plan & { argv: string[] },
) {
  if (wanted.length === 0) return;
  const argv = [...wanted, ...onlyBinary(binaries)];
  const python = path.join(draft, "bin", "python");
  const installer =
    uv === null
      ? [python, "-m", "pip", "install", "--use-pep517"]
      : [uv, "pip", "install", "--python", python, "--compile-bytecode"];
  const shown = [...(uv === null ? [] : ["uv"]), "pip", "install"];
  const own = argv.includes("--editable") ? [requirements.cwd] : (requirements.packageDirs ?? []);
  const env = await gitVersionVariables(context, own);
  const run = (words: string[]) => {
    const command = { argv: [...installer, ...words], shown: [...shown, ...words], cwd: requirements.cwd, env };
    return runCommand(context, command, "InstallFailed");
  };
  const install = (more: string[]) => run([...argv, ...more]);
  if (requirements.first !== undefined) await run(requirements.first);
  await install([]);
  if (!(await lacksPkgResources(draft))) return;
  context.choose(
    "Newer versions of setuptools have no pkg_resources, which older packages import: installing an older one.",
  );
  await install([olderSetuptools]).catch((error: unknown) => {
    context.signal.throwIfAborted();
    if (!(error instanceof BuildFailure) || error.reason === "DiskFull") throw error;
    context.log.say("Note: the project needs a newer setuptools, which stays.");
  });
}

/** The last version of setuptools with pkg_resources is 81. Images of Python 3.11 and older have such a version from the start. */
export const olderSetuptools = "setuptools<82";

/** Returns whether an environment has a setuptools without pkg_resources, because one of its packages requires setuptools. */
async function lacksPkgResources(environmentDir: string): Promise<boolean> {
  const names: string[] = await readdir(await sitePackages(environmentDir)).catch(() => []);
  return names.some((name) => name.startsWith("setuptools-")) && !names.includes("pkg_resources");
}

/** Directory below the project's own packages with their console scripts. The PATH of the server has it. */
export const ownProgramsName = "bin";

/**
 * Completes the project's own packages for a server that starts without Pierhead's host: makes Python read their directory
 * like site-packages, and writes their console scripts for the environment.
 */
export async function layOutPrograms(environmentDir: string, sourceDir: string): Promise<void> {
  const directory = path.join(sourceDir, packagesDirName);
  await writeFile(path.join(directory, "sitecustomize.py"), siteScript);
  const bin = path.join(directory, ownProgramsName);
  for (const name of await readdir(directory)) {
    if (!name.endsWith(".dist-info")) continue;
    const text = await readFile(path.join(directory, name, "entry_points.txt"), "utf8").catch(() => "");
    const [, scripts = ""] = /^\[console_scripts\]\s*$([^[]*)/m.exec(text) ?? [];
    for (const [, program = "", module = "", attribute = ""] of scripts.matchAll(
      /^([\w.-]+)\s*=\s*([\w.]+):([\w.]+)/gm,
    )) {
      await mkdir(bin, { recursive: true });
      await writeFile(path.join(bin, program), programText(environmentDir, module, attribute));
      await chmod(path.join(bin, program), 0o755);
    }
  }
}

/** Lets Python import modules of a directory of the artifact, after those of all others. */
export async function addImportRoot(sourceDir: string, target: string, directory: string): Promise<void> {
  await writeFile(path.join(sourceDir, packagesDirName, "pierhead-above.pth"), `${path.join(target, directory)}\n`);
}

/** Python imports this module at its start from PYTHONPATH, whose .pth files it does not read otherwise. */
const siteScript = `import os, site

site.addsitedir(os.path.dirname(os.path.abspath(__file__)))
`;

/** A shell finds the interpreter, because a kernel limits the length of a first line. */
function programText(environmentDir: string, module: string, attribute: string): string {
  const [first = ""] = attribute.split(".");
  return `#!/bin/sh
'''exec' "${environmentDir}/bin/python" "$0" "$@"
' '''
import sys
from ${module} import ${first}
sys.exit(${attribute}())
`;
}
