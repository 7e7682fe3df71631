import { rm } from "node:fs/promises";
import path from "node:path";
import { type Command, parseCommandLine } from "../detect/command-line.ts";
import { BuildFailure } from "../failure.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { type Install, installCommand, withManager } from "./install-command.ts";
import { isNpmCi, runNpmCi } from "./npm-ci.ts";

/**
 * Installs the packages of a JavaScript project, with the user's command or the package manager that its files name.
 * @param directory relative to the root of the source.
 * @throws BuildFailure `InstallFailed`, `CommandInvalid`
 */
export async function installPackages(
  context: BuildContext,
  { directory, installCommand: given }: { directory: string; installCommand: string | null },
): Promise<void> {
  if (given !== null) {
    await runAll(context, parseCommandLine(given, { cwd: ".", what: "install command" }), "InstallFailed");
    return;
  }
  const command = await installCommand(context.sourceDir, directory, context.env["PATH"] ?? "");
  if (command === null) {
    context.log.say(`Nothing to install: there is no package.json in ${directory === "." ? "the root" : directory}.`);
    return;
  }
  context.log.say(command.because);
  try {
    await runAll(context, [command], "InstallFailed");
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    if (await installUnlocked(context, command)) return;
    await retryWithPeers(context, command, error);
  }
}

/**
 * Installs a project whose lock file cannot be used: with the versions that still fit if it only lags behind package.json, without
 * it if it names versions that do not exist.
 * @returns false when the lock file is not why the installation failed.
 */
async function installUnlocked(context: BuildContext, command: Install): Promise<boolean> {
  const { unlocked } = command;
  if (unlocked === null) return false;
  const { lockFile, argv } = unlocked;
  let gone = findGonePackage(context.log.lastLines(100));
  if (gone === null) {
    if (!isLockStale(context.log.lastLines(100))) return false;
    context.log.say(
      `${lockFile} does not fit package.json. Installing again: versions in it that still fit stay, the others are chosen again. To keep all versions fixed, install locally and commit ${lockFile}.`,
    );
    try {
      await installWithPeers(context, { ...command, argv });
      return true;
    } catch (error) {
      gone = findGonePackage(context.log.lastLines(100));
      if (!(error instanceof BuildFailure) || gone === null) throw error;
    }
  }
  context.log.say(
    `${lockFile} names ${gone}, which the registry does not have. Installing the versions that package.json allows instead. To keep versions fixed, update the lock file.`,
  );
  await rm(path.join(context.sourceDir, lockFile));
  await installWithPeers(context, { ...command, argv });
  return true;
}

/** Returns whether a package manager reports that the lock file was not written for this package.json. */
export const isLockStale = (lines: readonly string[]) => lines.some((line) => staleForms.test(line));

/** As npm, pnpm, Yarn 1, Yarn from version 2 on, and Bun say it. npm lists so many packages that its first line may be gone. */
const staleForms =
  /`npm ci` can only install packages when|\bMissing: \S+ from lock file|\bInvalid: lock file's \S+ does not satisfy|\bERR_PNPM_(?:OUTDATED_LOCKFILE|LOCKFILE_CONFIG_MISMATCH)\b|Your lockfile needs to be updated, but yarn was run with|\bYN0028\b|lockfile had changes, but lockfile is frozen/;

async function installWithPeers(context: BuildContext, command: Install): Promise<void> {
  try {
    await runAll(context, [command], "InstallFailed");
  } catch (error) {
    await retryWithPeers(context, command, error);
  }
}

async function retryWithPeers(context: BuildContext, command: Install, error: unknown): Promise<void> {
  if (!(error instanceof BuildFailure) || command.manager[0] !== "npm" || command.manager.length > 1) throw error;
  if (!context.log.lastLines(50).some((line) => /\bERESOLVE\b/.test(line))) throw error;
  context.log.say(
    "The packages of this project disagree about the versions of their peers. Trying again with --legacy-peer-deps, as npm suggests. To say it in the project, add legacy-peer-deps=true to .npmrc.",
  );
  await runAll(context, [{ ...command, argv: [...command.argv, "--legacy-peer-deps"] }], "InstallFailed");
}

/**
 * Returns the name of a package that a registry does not have (any more), as the package managers report it; null: the
 * installation failed for another reason.
 */
export function findGonePackage(output: readonly string[]): string | null {
  // A script of a package may print any line, and the forms take quadratic time.
  const lines = output.map((line) => line.slice(0, reportLengthMax));
  const ofYarn = lines.map((one) => /\bYN0035\b.*?\s(\S+)@npm:(\d[^\s:]*):/.exec(one)).find((match) => match !== null);
  if (ofYarn && lines.some((one) => /\bResponse Code: 404\b/.test(one))) return `${ofYarn[1]}@${ofYarn[2]}`;
  const line = lines.find((one) => goneForms.test(one));
  if (line === undefined) return null;
  return (
    /([^/\s"]+)\.tgz/.exec(line)?.[1] ??
    /No matching version found for ([^\s:]+@[^\s:]*[^\s:.])/.exec(line)?.[1] ??
    "a version"
  );
}

/** Longer than what a package manager reports of one package. */
const reportLengthMax = 2_000;

const goneForms =
  /\.tgz\b.*\b404\b|\b404\b.*\.tgz\b|\bERR_PNPM_(?:FETCH_404|NO_MATCHING_VERSION)\b|No matching version found for/;

/** Runs programs one after another. Package managers that this machine lacks are run through npm. */
export async function runAll(
  context: BuildContext,
  commands: readonly Command[],
  reason: "InstallFailed" | "BuildFailed",
): Promise<void> {
  for (const given of commands) {
    const command = await withManager(given, context.sourceDir, context.env["PATH"] ?? "");
    await (isNpmCi(command) ? runNpmCi : runCommand)(context, command, reason);
  }
}
