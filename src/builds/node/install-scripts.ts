import { readFile } from "node:fs/promises";
import path from "node:path";
import { BuildFailure } from "../failure.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { needsRepository } from "./git-hooks.ts";
import { type Install, managerName } from "./install-command.ts";
import { runAll } from "./run-all.ts";

/** Lines in which npm, Yarn 1 and pnpm report a failed script of a package. */
const failedForms = [
  /^npm error path \S*\/node_modules\/((?:@[^/\s]+\/)?[^/\s]+)$/,
  /^error \S*\/node_modules\/((?:@[^/\s]+\/)?[^/\s:]+): Command failed/,
  /\/node_modules\/((?:@[^/\s]+\/)?[^/\s]+) \w*install: Failed$/,
];

/** Line in which pnpm reports a failed script of a member of the workspace. The root is `.`. */
const failedMember = /^(?!\.)\S{1,200} (?:\w*install|prepare): Failed$/;

/** Returns whether a script of a workspace member other than the root failed. */
export const hasFailedMember = (lines: readonly string[]): boolean => lines.some((line) => failedMember.test(line));

/** Returns the package whose installation script failed; null: the installation failed for another reason. */
export function findFailedScript(lines: readonly string[]): string | null {
  if (!lines.some((line) => /command failed/i.test(line))) return null;
  return lines.flatMap((line) => failedForms.map((form) => form.exec(line)?.[1])).find(Boolean) ?? null;
}

/** Each takes one more attempt. */
const failedMax = 5;

/**
 * Installs a project again without the scripts of packages, then runs those that work. Such scripts download browsers, drivers or
 * other binaries that many servers do not need.
 * @param failed package whose script failed; null: a script of the project failed because it installs git hooks.
 */
export async function installWithoutScripts(
  context: BuildContext,
  command: Install,
  failed: string | null,
): Promise<void> {
  const { log, sourceDir } = context;
  log.say(
    failed === null
      ? "A script of the installation needs git, which this machine does not have, or a repository with commits. Installing without it: a server needs no git hooks."
      : `The installation script of ${failed} failed. Installing without it: the server runs if it does not need what that script makes or downloads.`,
  );
  await runAll(context, [{ ...command, argv: [...command.argv, "--ignore-scripts"] }], "InstallFailed");
  const directory = path.join(sourceDir, command.cwd);
  await rebuildOthers(context, command, { directory, failed });
  const scripts = await readJson<{ scripts?: Record<string, string> }>(path.join(directory, "package.json"));
  for (const name of ["install", "postinstall", "prepare"]) {
    if (scripts?.scripts?.[name] === undefined) continue;
    try {
      await runAll(context, [{ ...command, argv: [...command.manager, "run", name] }], "InstallFailed");
    } catch (error) {
      if (!(error instanceof BuildFailure) || !needsRepository(log.lastLines(100))) throw error;
      log.say(`Note: the script ${name} needs a git repository. The build goes on without it.`);
    }
  }
}

async function rebuildOthers(
  context: BuildContext,
  command: Install,
  { directory, failed }: { directory: string; failed: string | null },
): Promise<void> {
  const name = managerName(command);
  if (name !== "npm" && name !== "pnpm") return;
  const left = new Set(name === "npm" ? await scriptsOfNpm(directory) : await scriptsOfPnpm(directory));
  const rebuild = name === "npm" ? ["npm", "rebuild"] : [...command.manager, "--recursive", "rebuild"];
  for (let next = failed, tried = 0; tried < failedMax; tried++) {
    if (next !== null) left.delete(next);
    if (left.size === 0) return;
    try {
      await runAll(context, [{ ...command, argv: [...rebuild, ...left] }], "InstallFailed");
      return;
    } catch (error) {
      next = findFailedScript(context.log.lastLines(100));
      if (!(error instanceof BuildFailure) || next === null || !left.has(next)) throw error;
      context.log.say(`The installation script of ${next} failed, too.`);
    }
  }
}

/** Returns the installed packages that have installation scripts. */
async function scriptsOfNpm(directory: string): Promise<string[]> {
  const lock = await readJson<{ packages?: Record<string, { hasInstallScript?: boolean }> }>(
    path.join(directory, "node_modules/.package-lock.json"),
  );
  return Object.entries(lock?.packages ?? {})
    .filter(([, { hasInstallScript }]) => hasInstallScript === true)
    .map(([place]) => place.split("node_modules/").at(-1) ?? "");
}

/** Returns the installed packages whose scripts pnpm has not run. */
async function scriptsOfPnpm(directory: string): Promise<string[]> {
  const text = await readFile(path.join(directory, "node_modules/.modules.yaml"), "utf8").catch(() => "");
  return listedIn(text, "pendingBuilds").flatMap((one) => /^\/?((?:@[^/]+\/)?[^@/]+)[@/]/.exec(one)?.[1] ?? []);
}

/** Returns the packages that .modules.yaml lists under a name: as JSON, or in lines, as pnpm writes them by its version. */
export function listedIn(text: string, name: "pendingBuilds" | "ignoredBuilds"): string[] {
  const form = `^[ \\t]*["']?${name}["']?:[ \\t]*(?:(\\[[^\\]]*\\])|\\n((?:[ \\t]*- [^\\n]*(?:\\n|$))*))`;
  const [, list = "", lines = ""] = new RegExp(form, "m").exec(text) ?? [];
  return [...`${list}\n${lines}`.matchAll(/["']?([@\w/][^\s"',[\]]*)/g)].map(([, one = ""]) => one);
}

async function readJson<T>(file: string): Promise<T | null> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as T;
  } catch {
    return null;
  }
}
