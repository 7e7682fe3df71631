import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFile, lstat, mkdir, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { artifactManifestName } from "../cache/artifact.ts";
import { installOnce } from "../cache/install-once.ts";
import { moveWhole } from "../cache/move-atomically.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import type { Interpreter } from "./interpreter.ts";
import { keepLocalPackages, replaceInFiles } from "./local-packages.ts";
import { ownDataFiles } from "./own-data-files.ts";

/** What creates an environment. */
export interface EnvironmentTools {
  interpreter: Interpreter;
  /** null: use pip. */
  uv: string | null;
}

/** Changes with what is done to every environment beside what `fill` installs. */
const formVersion = 2;

/**
 * Returns the environment for some requirements, which is filled at most once: builds with equal requirements share one, so a
 * change of code alone installs nothing. Removes environments that no artifact uses any more.
 * @param what everything that decides what the environment contains, besides the tools, the machine and the package indexes.
 * @param fill makes the environment in a directory of the build, where its size is limited and a killed build leaves nothing behind.
 *   It logs with `choose` what it decides, because every build that reuses the environment logs that again.
 * @returns its absolute directory
 * @throws what `fill` throws
 */
export async function sharedEnvironment(
  context: BuildContext,
  { interpreter, uv }: EnvironmentTools,
  what: readonly unknown[],
  fill: (draft: string, choose: (line: string) => void) => Promise<void>,
): Promise<string> {
  const settings = Object.entries(context.env).filter(([name]) => /^(PIP|UV)_.*(INDEX|FIND_LINKS|CONFIG)/.test(name));
  const identity = [formVersion, interpreter, uv !== null, process.platform, process.arch, settings, what];
  const name = createHash("sha256").update(JSON.stringify(identity)).digest("hex").slice(0, 32);
  const root = path.join(context.cacheDir, "python");
  const directory = path.join(root, name);
  let isNew = false;
  await installOnce(context, directory, async () => {
    await removeUnused(root);
    const draft = path.join(path.dirname(context.sourceDir), "environment");
    context.log.say(`Creating an environment with Python ${interpreter.version} and ${uv === null ? "pip" : "uv"}.`);
    const choices: string[] = [];
    await fill(draft, (line) => {
      context.log.say(line);
      choices.push(line);
    });
    await appendFile(path.join(draft, choicesName), choices.map((line) => `${line}\n`).join(""));
    await ownDataFiles(draft);
    await keepLocalPackages(draft, context.sourceDir);
    await replaceInFiles(path.join(draft, "bin"), draft, directory);
    await moveTo(context, draft, directory);
    isNew = true;
  });
  if (!isNew) context.log.say(await sayReuse(directory));
  await utimes(directory, new Date(), new Date());
  return directory;
}

/** File in an environment with the decisions that filled it, one per line. */
export const choicesName = "pierhead-choices";

/** A package can install a file of this name, of any size. */
const choicesBytesMax = 64 * 1024;

async function sayReuse(environmentDir: string): Promise<string> {
  const file = path.join(environmentDir, choicesName);
  const found = await lstat(file).catch(() => null);
  const isRead = found?.isFile() === true && found.size <= choicesBytesMax;
  const choices = isRead ? await readFile(file, "utf8").catch(() => "") : "";
  const reuse = "The dependencies are unchanged: reusing the environment of an earlier build";
  return choices === "" ? `${reuse}.` : `${reuse}, which said:\n${choices.trimEnd().replace(/^/gm, "  ")}`;
}

/** Makes an environment without packages. Removes one that is there already. @throws BuildFailure `ToolchainFailed` */
export async function makeEmptyEnvironment(
  context: BuildContext,
  { interpreter, uv }: EnvironmentTools,
  directory: string,
): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  const argv =
    uv === null
      ? [interpreter.python, "-m", "venv", directory]
      : [uv, "venv", "--quiet", "--python", interpreter.python, directory];
  const shown = uv === null ? ["python", "-m", "venv"] : ["uv", "venv"];
  await runCommand(context, { argv, shown, cwd: ".", env: {} }, "ToolchainFailed");
}

async function moveTo(context: BuildContext, draft: string, directory: string): Promise<void> {
  await mkdir(path.dirname(directory), { recursive: true, mode: 0o700 });
  try {
    await moveWhole(draft, directory, context);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    const near = `${directory}.unfinished`;
    await rm(near, { recursive: true, force: true });
    await promisify(execFile)("cp", ["-RP", "--", draft, near], { env: context.env, signal: context.signal });
    await moveWhole(near, directory, context);
  }
}

/** Directory in an environment with one file per artifact that uses it. Each file contains the path of the artifact. */
const usersName = "pierhead-users";

/** Records that an artifact uses an environment, which is then kept as long as the artifact exists. */
export async function noteUser(environmentDir: string, artifactDir: string): Promise<void> {
  const users = path.join(environmentDir, usersName);
  await mkdir(users, { recursive: true, mode: 0o700 });
  await writeFile(path.join(users, createHash("sha256").update(artifactDir).digest("hex")), artifactDir);
}

/** Time to keep an environment that no artifact uses, because a running build or the next change of code may need it. */
const unusedKeptMs = 24 * 3_600_000;

async function removeUnused(root: string): Promise<void> {
  for (const name of await readdir(root).catch(() => [])) {
    const directory = path.join(root, name);
    const found = await stat(directory).catch(() => null);
    if (found === null || !found.isDirectory() || Date.now() - found.mtimeMs < unusedKeptMs) continue;
    if (!(await isUsed(directory))) await rm(directory, { recursive: true, force: true });
  }
}

async function isUsed(directory: string): Promise<boolean> {
  const users = path.join(directory, usersName);
  for (const name of await readdir(users).catch(() => [])) {
    const artifactDir = await readFile(path.join(users, name), "utf8");
    if ((await stat(path.join(artifactDir, artifactManifestName)).catch(() => null)) !== null) return true;
  }
  return false;
}
