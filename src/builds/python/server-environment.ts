import { createHash } from "node:crypto";
import { chmod, mkdir, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { installOnce } from "../cache/install-once.ts";
import { moveWhole } from "../cache/move-atomically.ts";
import type { CommandProject, PythonRequest } from "../detect/pierhead-config.ts";
import { BuildFailure } from "../failure.ts";
import { findProgram } from "../worker/environment.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { findPython, type Interpreter } from "./interpreter.ts";
import { keepLocalPackages, packagesDirName, replaceInFiles } from "./local-packages.ts";
import { findServerRequirements, type ServerRequirements } from "./server-requirements.ts";

type Project = CommandProject & { python: PythonRequest };

/**
 * Returns the environment of a Python server that is not a LangGraph agent: the project's dependencies, without the project
 * itself. Builds with equal requirements share one environment.
 * @param artifactKey of this build; it names the environment if installing the requirements runs code of the project.
 * @returns its absolute directory
 * @throws BuildFailure `ToolchainFailed`, `InstallFailed`, `ConfigInvalid`
 */
export async function serverEnvironment(context: BuildContext, project: Project, artifactKey: string): Promise<string> {
  const uv = findProgram("uv", context.env["PATH"] ?? "");
  const interpreter = await findPython(
    context,
    { version: project.python.version, from: "python_version", isPreference: false, ranges: [] },
    uv,
  );
  const requirements = await findServerRequirements(context, project, uv);
  const settings = Object.entries(context.env).filter(([name]) => /^(PIP|UV)_.*(INDEX|FIND_LINKS|CONFIG)/.test(name));
  const { identity, isShareable, cwd } = requirements;
  const what = ["server", interpreter, uv !== null, settings, cwd, identity, isShareable ? null : artifactKey];
  const name = createHash("sha256").update(JSON.stringify(what)).digest("hex").slice(0, 32);
  const directory = path.join(context.cacheDir, "python", name);
  let isNew = false;
  await installOnce(context, directory, async () => {
    await create(context, directory, { requirements, interpreter, uv });
    isNew = true;
  });
  if (!isNew) context.log.say("The dependencies are unchanged: reusing the environment of an earlier build.");
  await utimes(directory, new Date(), new Date());
  return directory;
}

interface Plan {
  requirements: ServerRequirements;
  interpreter: Interpreter;
  /** null: use pip. */
  uv: string | null;
}

/** Creates the environment in the work directory, where its size is limited and a killed build leaves nothing behind. */
async function create(context: BuildContext, directory: string, plan: Plan): Promise<void> {
  const { requirements, interpreter, uv } = plan;
  const draft = path.join(path.dirname(context.sourceDir), "environment");
  context.log.say(`Creating an environment with Python ${interpreter.version} and ${uv === null ? "pip" : "uv"}.`);
  context.log.say(requirements.because);
  const make = async (argv: string[]) => {
    await rm(draft, { recursive: true, force: true });
    const made =
      uv === null
        ? [interpreter.python, "-m", "venv", draft]
        : [uv, "venv", "--quiet", "--python", interpreter.python, draft];
    const shown = uv === null ? ["python", "-m", "venv"] : ["uv", "venv"];
    await runCommand(context, { argv: made, shown, cwd: ".", env: {} }, "ToolchainFailed");
    await installInto(context, draft, { ...plan, argv });
  };
  try {
    await make(requirements.argv);
  } catch (error) {
    const isPackaging = context.log.lastLines(60).some((line) => packagingErrors.test(line));
    if (!(error instanceof BuildFailure) || requirements.withoutProject === null || !isPackaging) throw error;
    context.log.say(
      "The project itself cannot be packaged. Installing only its dependencies and running it from its directory.",
    );
    await make(requirements.withoutProject);
  }
  await keepLocalPackages(draft, context.sourceDir);
  await replaceInFiles(path.join(draft, "bin"), draft, directory);
  await mkdir(path.dirname(directory), { recursive: true });
  await moveWhole(draft, directory, context);
}

/** What build back ends say when the files of a project do not have the form of a package. */
const packagingErrors =
  /Multiple top-level (packages|modules)|No file\/folder found for package|Unable to determine which files to ship|Expected a Python module at|package directory .* does not exist|not a valid editable requirement|Readme (path|file)|OSError: Readme/i;

async function installInto(
  context: BuildContext,
  draft: string,
  { requirements, uv, argv }: Plan & { argv: string[] },
) {
  if (argv.length === 0) return;
  const python = path.join(draft, "bin", "python");
  const installer =
    uv === null
      ? [python, "-m", "pip", "install", "--use-pep517"]
      : [uv, "pip", "install", "--python", python, "--compile-bytecode"];
  const shown = [...(uv === null ? [] : ["uv"]), "pip", "install", ...argv];
  await runCommand(context, { argv: [...installer, ...argv], shown, cwd: requirements.cwd, env: {} }, "InstallFailed");
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
