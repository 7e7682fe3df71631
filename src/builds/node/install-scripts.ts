import { readFile } from "node:fs/promises";
import path from "node:path";
import { BuildFailure } from "../failure.ts";
import type { BuildContext } from "../worker/run-command.ts";
import type { Install } from "./install-command.ts";
import { runAll } from "./run-all.ts";

/** As npm and Yarn 1 report the script of a package that failed. */
const failedForms = [
  /^npm error path \S*\/node_modules\/((?:@[^/\s]+\/)?[^/\s]+)$/,
  /^error \S*\/node_modules\/((?:@[^/\s]+\/)?[^/\s:]+): Command failed/,
];

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
 * @param failed package whose script failed.
 */
export async function installWithoutScripts(context: BuildContext, command: Install, failed: string): Promise<void> {
  const { log, sourceDir } = context;
  log.say(
    `The installation script of ${failed} failed. Installing without it: the server runs if it does not need what that script makes or downloads.`,
  );
  await runAll(context, [{ ...command, argv: [...command.argv, "--ignore-scripts"] }], "InstallFailed");
  const directory = path.join(sourceDir, command.cwd);
  if (command.argv[0] === "npm" && command.argv[1] !== "exec") {
    await rebuildOthers(context, command, { directory, failed });
  }
  const scripts = await readJson<{ scripts?: Record<string, string> }>(path.join(directory, "package.json"));
  for (const name of ["install", "postinstall", "prepare"]) {
    if (scripts?.scripts?.[name] === undefined) continue;
    await runAll(context, [{ ...command, argv: [...command.manager, "run", name] }], "InstallFailed");
  }
}

async function rebuildOthers(
  context: BuildContext,
  command: Install,
  { directory, failed }: { directory: string; failed: string },
): Promise<void> {
  const lock = await readJson<{ packages?: Record<string, { hasInstallScript?: boolean }> }>(
    path.join(directory, "node_modules/.package-lock.json"),
  );
  const scripted = Object.entries(lock?.packages ?? {})
    .filter(([, { hasInstallScript }]) => hasInstallScript === true)
    .map(([place]) => place.split("node_modules/").at(-1) ?? "");
  const left = new Set(scripted);
  for (let next: string | null = failed, tried = 0; next !== null && tried < failedMax; tried++) {
    left.delete(next);
    if (left.size === 0) return;
    try {
      await runAll(context, [{ ...command, argv: ["npm", "rebuild", ...left] }], "InstallFailed");
      return;
    } catch (error) {
      next = findFailedScript(context.log.lastLines(100));
      if (!(error instanceof BuildFailure) || next === null || !left.has(next)) throw error;
      context.log.say(`The installation script of ${next} failed, too.`);
    }
  }
}

async function readJson<T>(file: string): Promise<T | null> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as T;
  } catch {
    return null;
  }
}
