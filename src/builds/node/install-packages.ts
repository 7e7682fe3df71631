import { readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { parseCommandLine } from "../detect/command-line.ts";
import { BuildFailure, ProgramFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";
import { downloadRetries, namesWaits } from "../worker/environment.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { withOtherVersion } from "./bun-lock.ts";
import { installInRepository, needsRepository } from "./git-hooks.ts";
import { type Install, installCommand, packageDirectory } from "./install-command.ts";
import { refusalIn, retryFor } from "./install-retries.ts";
import { findFailedScript, hasFailedMember, installWithoutScripts } from "./install-scripts.ts";
import { unreachableCause, unreachableHosts, withoutAddresses } from "./lock-addresses.ts";
import { type LockedPackage, withoutPackage } from "./lock-file.ts";
import { narrowWorkspace } from "./narrow-workspace.ts";
import { generatePrismaClient } from "./prisma-client.ts";
import { runAll } from "./run-all.ts";

/**
 * Installs the packages of a JavaScript project, with the user's command or the package manager that its files name.
 * @param directory relative to the root of the source.
 * @throws BuildFailure `InstallFailed`, `CommandInvalid`
 */
export async function installPackages(
  given: BuildContext,
  { directory, installCommand: chosen }: { directory: string; installCommand: string | null },
): Promise<void> {
  const context = await withOwnWaits(given, [".", directory]);
  if (chosen !== null) {
    await runAll(context, parseCommandLine(chosen, { cwd: ".", what: "install command" }), "InstallFailed");
    return;
  }
  const command = await installCommand(context.sourceDir, directory, context.env["PATH"] ?? "");
  if (command === null) {
    context.log.say(`Nothing to install: there is no package.json in ${directory === "." ? "the root" : directory}.`);
    return;
  }
  context.log.say(command.because);
  try {
    const member = (await packageDirectory(context.sourceDir, directory)) ?? directory;
    const install = () => installWithRepairs(context, command, member);
    await installWithGit(context, command, () => installFromOwnRegistry(context, command, install));
    await generatePrismaClient(context, command, member);
  } catch (error) {
    if (!(error instanceof ProgramFailure)) throw error;
    const because = causeIn(context.log.lastLines(100));
    if (because === null) throw error;
    context.log.say(because);
    throw new ProgramFailure(error.reason, `${because}\n${error.message}`, error.exitCode);
  }
}

/** Leaves the waits between downloads to a project that names them: variables count more to npm than its .npmrc. */
async function withOwnWaits(context: BuildContext, directories: readonly string[]): Promise<BuildContext> {
  const { sourceDir } = context;
  const files = directories.map((directory) => path.posix.join(directory, ".npmrc"));
  const texts = files.map(async (file) =>
    (await isFileInside(sourceDir, file)) ? readFile(path.join(sourceDir, file), "utf8") : "",
  );
  if (!(await Promise.all(texts)).some(namesWaits)) return context;
  const kept = Object.entries(context.env).filter(([name, value]) => downloadRetries[name] !== value);
  return { ...context, env: Object.fromEntries(kept) };
}

function causeIn(lines: readonly string[]): string | null {
  const refusal = refusalIn(lines);
  if (refusal !== null) return refusal;
  const gone = findGonePackage(lines);
  if (gone === null) return unreachableCause(lines);
  return `The registry does not have ${showPackage(gone)}, which the project needs. Correct the version in package.json, or name a registry that has it in .npmrc.`;
}

/** Installs a project also where its scripts install git hooks. */
async function installWithGit(context: BuildContext, command: Install, install: () => Promise<void>): Promise<void> {
  try {
    await install();
  } catch (error) {
    if (!(error instanceof BuildFailure) || !needsRepository(context.log.lastLines(100))) throw error;
    if (!(await installInRepository(context, install))) await installWithoutScripts(context, command, null);
  }
}

/**
 * Installs the same versions from the registry of this machine when the lock file has the addresses of one that it cannot use, such
 * as that of the company where the lock file was written. The checksums in the lock file protect against other packages of the same
 * names.
 */
async function installFromOwnRegistry(
  context: BuildContext,
  { unlocked }: Install,
  install: () => Promise<void>,
): Promise<void> {
  for (let tried = 0; ; tried++) {
    try {
      return await install();
    } catch (error) {
      const hosts = error instanceof BuildFailure ? unreachableHosts(context.log.lastLines(100)) : [];
      if (unlocked === null || hosts.length === 0 || tried === registriesMax) throw error;
      const isEdited = await editLock(context, unlocked.lockFile, (name, text) => withoutAddresses(name, text, hosts));
      if (!isEdited) throw error;
      context.log.say(
        `${unlocked.lockFile} names addresses at ${hosts.join(", ")}, which this machine cannot use. Installing again the same versions, with the same checksums, from the registry of this machine. To avoid this attempt, write the lock file with a public registry.`,
      );
    }
  }
}

/** Registries of one lock file. Package managers often report one at a time, and each costs another installation. */
const registriesMax = 3;

async function installWithRepairs(context: BuildContext, command: Install, directory: string): Promise<void> {
  try {
    await runAll(context, [command], "InstallFailed");
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    if (await installUnlocked(context, command, directory)) return;
    try {
      await retryWithPeers(context, command, error);
    } catch (later) {
      // A conflict of peers hides what is wrong with the lock file until it is overridden.
      if (!(later instanceof BuildFailure) || !(await installUnlocked(context, command, directory))) throw later;
    }
  }
}

/**
 * Installs a project whose lock file cannot be used as it is: with the versions that still fit if it only lags behind package.json,
 * and with other versions of those packages that the registry does not have (any more).
 * @returns false when the lock file is not why the installation failed.
 */
async function installUnlocked(context: BuildContext, command: Install, directory: string): Promise<boolean> {
  const { unlocked } = command;
  if (unlocked === null) {
    const gone = findGonePackage(context.log.lastLines(100));
    if (gone === null || !(await narrow(context, command, { directory, gone }))) return false;
    await installWithPeers(context, command);
    return true;
  }
  const { lockFile, argv } = unlocked;
  let gone = findGonePackage(context.log.lastLines(100));
  if (gone === null) {
    if (!isLockStale(context.log.lastLines(100))) return false;
    context.log.say(
      `${lockFile} does not fit package.json. Installing again: versions in it that still fit stay, the others are chosen again. To keep all versions fixed, install locally and commit ${lockFile}.`,
    );
    gone = await tryUnlocked(context, { ...command, argv });
  }
  for (let tried = 0; gone !== null && tried < goneMax; tried++) {
    if (await dropFromLock(context, lockFile, gone))
      context.log.say(
        `${lockFile} names ${showPackage(gone)}, which the registry does not have. Installing again: a version of ${gone.name} that fits is chosen, and the other versions stay. To keep all versions fixed, update the lock file.`,
      );
    else if (!(await narrow(context, command, { directory, gone }))) break;
    gone = await tryUnlocked(context, { ...command, argv: [...argv, ...unlocked.repair] });
  }
  if (gone === null) return true;
  context.log.say(
    `${lockFile} names ${showPackage(gone)}, which the registry does not have. Installing the versions that package.json allows instead. To keep versions fixed, update the lock file.`,
  );
  await rm(path.join(context.sourceDir, lockFile));
  await installWithPeers(context, { ...command, argv });
  return true;
}

/** @returns false when the project is not a member of a workspace, or needs all members. */
async function narrow(
  context: BuildContext,
  { cwd }: Install,
  { directory, gone }: { directory: string; gone: LockedPackage },
): Promise<boolean> {
  const omitted = await narrowWorkspace(context.sourceDir, cwd, directory);
  if (omitted.length === 0) return false;
  context.log.say(
    `The registry does not have ${showPackage(gone)}. Installing again only what ${directory} needs, without ${omitted.length} other members of the workspace.`,
  );
  return true;
}

/** Versions missing from the registry that one build replaces, because each costs another installation. */
const goneMax = 5;

/** @returns the package that the registry does not have; null: the installation succeeded. */
async function tryUnlocked(context: BuildContext, command: Install): Promise<LockedPackage | null> {
  try {
    await installWithPeers(context, command);
    return null;
  } catch (error) {
    const gone = findGonePackage(context.log.lastLines(100));
    if (!(error instanceof BuildFailure) || gone === null) throw error;
    return gone;
  }
}

/** Package managers read their own lock files of any size; larger ones than this are dropped whole. */
const lockBytesMax = 32 * 1024 * 1024;

const dropFromLock = (context: BuildContext, lockFile: string, gone: LockedPackage) =>
  editLock(context, lockFile, (name, text) =>
    name === "bun.lock" ? withOtherVersion(context, text, gone) : withoutPackage(name, text, gone),
  );

/** @param edit returns the new text; null: nothing to change. @returns whether the lock file was changed. */
async function editLock(
  { sourceDir }: BuildContext,
  lockFile: string,
  edit: (name: string, text: string) => string | null | Promise<string | null>,
): Promise<boolean> {
  const file = path.join(sourceDir, lockFile);
  const { size } = await stat(file).catch(() => ({ size: lockBytesMax + 1 }));
  if (size > lockBytesMax) return false;
  const edited = await edit(path.basename(lockFile), await readFile(file, "utf8"));
  if (edited === null) return false;
  await writeFile(file, edited);
  return true;
}

const showPackage = ({ name, version }: LockedPackage) => (version === unknown ? name : `${name}@${version}`);

/** No version of the package exists. */
const unknown = "unknown";

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

async function retryWithPeers(context: BuildContext, given: Install, error: unknown): Promise<void> {
  let [command, problem] = [given, error];
  for (;;) {
    const next = problem instanceof BuildFailure ? nextAttempt(command, context.log.lastLines(100)) : null;
    if (next === null) break;
    context.log.say(next.because);
    command = { ...command, argv: [...command.argv, ...next.options] };
    try {
      await runAll(context, [command], "InstallFailed");
      return;
    } catch (failure) {
      problem = failure;
    }
  }
  const failed = problem instanceof BuildFailure ? findFailedScript(context.log.lastLines(100)) : null;
  if (failed === null) throw problem;
  await installWithoutScripts(context, command, failed);
}

function nextAttempt(command: Install, lines: readonly string[]) {
  const { onlyMember, argv } = command;
  if (onlyMember === null || argv.includes(onlyMember[0] ?? "")) return retryFor(command, lines);
  if (findFailedScript(lines) === null && !hasFailedMember(lines)) return retryFor(command, lines);
  const because =
    "An installation script in the workspace failed. Installing again only what the deployed member and the root need.";
  return { because, options: onlyMember };
}

/**
 * Returns a package that a registry does not have (any more), as the package managers report it; null: the installation failed for
 * another reason.
 */
export function findGonePackage(output: readonly string[]): LockedPackage | null {
  // A script of a package may print any line, and the forms take quadratic time.
  const lines = output.map((line) => line.slice(0, reportLengthMax));
  const ofYarn = lines.map((one) => /\bYN0035\b.*?\s(\S+)@npm:(\d[^\s:]*):/.exec(one)).find((match) => match !== null);
  if (ofYarn && lines.some((one) => /\bResponse Code: 404\b/.test(one))) return packageOf(ofYarn);
  const line = lines.find((one) => goneForms.test(one));
  if (line === undefined) return null;
  const ofArchive = /\/((?:@[^/\s"]+(?:\/|%2f))?[^/\s"]+)\/-\/[^/\s"]*?-(\d[^/\s"]*)\.tgz/i.exec(line);
  const ofVersion = /No matching version found for ([^\s:]+)@([^\s:]*[^\s:.])/.exec(line);
  const ofRange = /any versions for "([^"\s]+)" that matches "([^"\s]+)"/.exec(line);
  const ofNewYarn = /\bYN0082\b.*?\s(\S+)@npm:([^\s:]*): No candidates found/.exec(line);
  const found = ofArchive ?? ofVersion ?? ofRange ?? ofNewYarn;
  if (found !== null) return packageOf(found);
  const ofPackage =
    /\bGET \S{1,500}\/((?:@[^/\s%]{1,200}%2f)?[^/\s%:]{1,200}): Not Found/i.exec(line) ??
    /\bNo versions available for (\S{1,200}?)\.?(?:\s|$)/.exec(line);
  return packageOf(["", ofPackage?.[1] ?? "a package", unknown]);
}

const packageOf = ([, name = "", version = ""]: readonly string[]) => ({ name: name.replace(/%2f/i, "/"), version });

/** Longer than what a package manager reports of one package. */
const reportLengthMax = 2_000;

const goneForms =
  /\.tgz\b.*\b404\b|\b404\b.*\.tgz\b|\bERR_PNPM_(?:FETCH_404|NO_MATCHING_VERSION|NO_VERSIONS)\b|No matching version found for|Couldn't find any versions for "|\bYN0082\b.*: No candidates found/;
