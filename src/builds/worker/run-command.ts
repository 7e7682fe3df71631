import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import type { Readable } from "node:stream";
import { missingPythonHint } from "../../base/missing-python.ts";
import type { CommitText } from "../../integrations/git.ts";
import { type Command, showCommand } from "../detect/command-line.ts";
import { BuildFailure, type BuildFailureReason, diskFullMessage, ProgramFailure } from "../failure.ts";
import { isDirectoryInside } from "../sources/inside.ts";
import { type BuildLog, LineSplitter } from "./build-log.ts";

/** State that the steps of one build share. */
export interface BuildContext {
  /** Absolute root of the source, which becomes the artifact. */
  sourceDir: string;
  /** Absolute directory on this machine for package caches and toolchains, shared by all builds. */
  cacheDir: string;
  /** Complete environment of the build's programs. */
  env: Record<string, string>;
  log: BuildLog;
  /** Aborted with the failure that stops the build. The code that aborts also kills the build's processes. */
  signal: AbortSignal;
  /** Called with what people wrote about the commit that is built. */
  noteCommit?(commit: CommitText): void;
  /** Runs `npm ci` with the help of earlier builds; absent: npm runs as it is. */
  runNpmCi?: typeof runCommand;
}

/**
 * Runs one program of the build to its end and logs its output.
 * @param reason of the failure if the exit code is not 0; the message quotes the last lines.
 * @throws BuildFailure
 */
export async function runCommand(context: BuildContext, command: Command, reason: BuildFailureReason): Promise<void> {
  const { log, sourceDir, signal } = context;
  const shown = showCommand(command.shown ?? command.argv);
  const place = command.cwd === "." ? "" : ` (in ${command.cwd})`;
  log.say(`$ ${shown}${place}`);
  log.forgetLastLines();
  if (!(await isDirectoryInside(sourceDir, command.cwd))) {
    throw new BuildFailure(
      "CommandInvalid",
      `There is no directory '${command.cwd}' in the source to run \`${shown}\` in.`,
    );
  }
  signal.throwIfAborted();
  const startedAt = performance.now();
  const end = await run(context, command, path.join(sourceDir, command.cwd));
  signal.throwIfAborted();
  if (end.exitCode === 0) return;
  const lines = log
    .lastLines(100)
    .filter((line) => !installedPackage.test(line))
    .slice(-15)
    .map((line) => line.slice(0, 400));
  if (lines.some((line) => /ENOSPC|EDQUOT|no space left on device/i.test(line))) {
    throw new BuildFailure("DiskFull", diskFullMessage);
  }
  const how =
    end.exitCode === null
      ? `was killed by ${end.signal}${outOfMemory(end.signal)}`
      : `ended with exit code ${end.exitCode}`;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  const said = lines.length === 0 ? "It printed nothing." : `Last lines:\n${lines.join("\n")}`;
  throw new ProgramFailure(reason, `\`${shown}\`${place} ${how} after ${seconds} s. ${said}`, end.exitCode);
}

/** A line of uv for a package that it installs, removes or replaces. */
const installedPackage = /^ [-+~] \S+==/;

interface CommandEnd {
  exitCode: number | null;
  signal: NodeJS.Signals | null;
}

async function run(context: BuildContext, { argv, env }: Command, cwd: string): Promise<CommandEnd> {
  const { log } = context;
  const [program = "", ...args] = argv;
  const child = spawn(program, args, { cwd, env: { ...context.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const stdout = new LineSplitter((line) => log.output("stdout", line));
  const stderr = new LineSplitter((line) => log.output("stderr", line));
  child.stdout.on("data", (chunk: Buffer) => stdout.write(chunk));
  child.stderr.on("data", (chunk: Buffer) => stderr.write(chunk));
  try {
    const [exitCode, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
    await outputEnd(child);
    return { exitCode, signal };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") throw notFound(program);
    if (code === "EACCES")
      throw new BuildFailure("CommandInvalid", `'${program}' may not be executed. Set its executable bit.`);
    throw error;
  } finally {
    stdout.end();
    stderr.end();
  }
}

/** A background child of the program keeps its pipes open. This is how long the build waits for remaining output. */
const outputTimeoutMs = 2_000;

async function outputEnd({ stdout, stderr }: ChildProcess): Promise<void> {
  const ended = [stdout, stderr].map((stream) => new Promise((resolve) => (stream as Readable).once("close", resolve)));
  const open = [stdout, stderr].filter((stream) => stream !== null && !stream.closed);
  if (open.length === 0) return;
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise((resolve) => {
    timer = setTimeout(resolve, outputTimeoutMs);
  });
  await Promise.race([Promise.all(ended), timeout]);
  clearTimeout(timer);
  for (const stream of open) stream?.destroy();
}

const outOfMemory = (signal: string | null) => (signal === "SIGKILL" ? ", probably because memory ran out" : "");

function notFound(program: string): BuildFailure {
  const where = program.includes("/") ? "in the source" : "on the PATH of this server";
  const hint =
    missingPythonHint(program) ?? "Install it on the build host, or run it with npx if it is an npm package.";
  return new BuildFailure("CommandInvalid", `The program '${program}' was not found ${where}. ${hint}`);
}
