import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat, utimes } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { describeError } from "../../telemetry/log.ts";
import { nodeMajor } from "../cache/artifact.ts";
import { moveWhole } from "../cache/move-atomically.ts";
import type { Command } from "../detect/command-line.ts";
import type { BuildFailureReason } from "../failure.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";

/** Number of node_modules trees in the cache, the most recently used ones: about 64 MB each for a small agent. */
const keptMax = 20;

/**
 * Runs `npm ci`, or copies its earlier result for equal package.json, lock files and .npmrc, so that a change of code alone
 * installs nothing (0.2 to 0.6 s for the 5,300 files of a small agent; npm takes 2 s from its own cache). The result is
 * saved before any build step or agent can modify it. Like the package caches, it is shared by all builds of this server.
 */
export async function runNpmCi(context: BuildContext, command: Command, reason: BuildFailureReason): Promise<void> {
  const projectDir = path.join(context.sourceDir, command.cwd);
  const target = path.join(projectDir, "node_modules");
  const key = (await exists(target)) ? null : await dependenciesKey(projectDir, context.env);
  if (key === null) return runCommand(context, command, reason);
  const keptDir = path.join(context.cacheDir, "dependencies");
  const kept = path.join(keptDir, key);
  if (await exists(kept)) {
    if (await copy(context, kept, target)) {
      await utimes(kept, new Date(), new Date());
      context.log.say("The dependencies are unchanged: copied node_modules from an earlier build.");
      return;
    }
  }
  await runCommand(context, command, reason);
  if (await exists(target)) await keep(context, target, kept);
}

/**
 * Returns the name of what `npm ci` would install. Null when it depends on more than these files: on scripts that run at
 * installation, or on packages that are directories of the project.
 */
async function dependenciesKey(projectDir: string, env: Record<string, string>): Promise<string | null> {
  const manifests = await readManifests(projectDir);
  if (manifests === null) return null;
  const settings = Object.entries(env).filter(([name]) => /^npm_config_/i.test(name));
  const what = [nodeMajor, process.platform, process.arch, settings, ...manifests];
  return createHash("sha256").update(JSON.stringify(what)).digest("hex");
}

/** The files that decide what npm installs. npm uses the first lock file of this list. */
const manifestNames = ["package.json", "npm-shrinkwrap.json", "package-lock.json", ".npmrc"];

/** Reads the files that decide what `npm ci` installs. @returns null when the result depends on anything else. */
export async function readManifests(projectDir: string): Promise<[name: string, text: string][] | null> {
  const read = async (name: string) =>
    [name, await readFile(path.join(projectDir, name), "utf8").catch(() => null)] as const;
  const found = await Promise.all(manifestNames.map(read));
  const [manifest, shrinkwrap, lock] = found.map(([, text]) => text);
  if (!dependsOnLockOnly(manifest ?? "", shrinkwrap || (lock ?? ""))) return null;
  return found.flatMap(([name, text]) => (text === null ? [] : [[name, text] as [string, string]]));
}

const installScripts = ["preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "dependencies"];

/** Returns whether equal manifests and lock files mean equal packages, without any part of the project itself. */
function dependsOnLockOnly(manifest: string, lock: string): boolean {
  try {
    const { workspaces, scripts } = JSON.parse(manifest) as { workspaces?: unknown; scripts?: Record<string, unknown> };
    const { packages } = JSON.parse(lock) as { packages?: Record<string, { link?: boolean; resolved?: string }> };
    if (workspaces !== undefined || packages === undefined) return false;
    if (installScripts.some((name) => scripts?.[name] !== undefined)) return false;
    return Object.values(packages).every(({ link, resolved }) => link !== true && !resolved?.startsWith("file:"));
  } catch {
    return false; // npm reports what is wrong with it
  }
}

/**
 * Copies with cp(1), which is five times as fast as node:fs for many small files and shares blocks where the file system
 * can.
 */
async function copy({ env, signal }: BuildContext, from: string, to: string): Promise<boolean> {
  const unfinished = `${to}.unfinished-${process.pid}`;
  const isCopied = await promisify(execFile)("cp", ["-RP", "--", from, unfinished], { env }).then(
    () => true,
    () => false,
  );
  signal.throwIfAborted();
  if (isCopied) await moveWhole(unfinished, to, { env, signal }).catch(() => {}); // another build was faster
  await rm(unfinished, { recursive: true, force: true });
  return exists(to);
}

/** Saves the packages for later builds. A failure is logged and does not fail this build. */
async function keep(context: BuildContext, target: string, kept: string): Promise<void> {
  const keptDir = path.dirname(kept);
  try {
    await mkdir(keptDir, { recursive: true, mode: 0o700 });
    await copy(context, target, kept);
    const all = await readdir(keptDir);
    await removeUnfinished(keptDir, all);
    const names = all.filter((name) => !name.includes("."));
    const used = await Promise.all(
      names.map(async (name) => ({ name, at: (await stat(path.join(keptDir, name))).mtimeMs })),
    );
    const old = used.toSorted((a, b) => b.at - a.at).slice(keptMax);
    await Promise.all(old.map(({ name }) => rm(path.join(keptDir, name), { recursive: true, force: true })));
  } catch (error) {
    context.signal.throwIfAborted();
    context.log.say(`The dependencies could not be saved for later builds: ${describeError(error)}`);
  }
}

/** A copy takes seconds. An older unfinished one is the remains of a killed build, as large as a finished one. */
const unfinishedMs = 3_600_000;

async function removeUnfinished(keptDir: string, names: string[]): Promise<void> {
  for (const name of names.filter((one) => one.includes(".unfinished-"))) {
    const found = await stat(path.join(keptDir, name)).catch(() => null);
    if (found === null || Date.now() - found.mtimeMs < unfinishedMs) continue;
    await rm(path.join(keptDir, name), { recursive: true, force: true });
  }
}

const exists = (file: string) =>
  stat(file).then(
    () => true,
    () => false,
  );
