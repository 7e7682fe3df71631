import { rm, stat } from "node:fs/promises";
import path from "node:path";
import { BuildFailure } from "../failure.ts";
import { findProgram } from "../worker/environment.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";

/** Returns whether the output of an installation says that a script needs a git repository, as programs that install hooks do. */
export const needsRepository = (lines: readonly string[]): boolean =>
  lines.some((line) => repositoryForms.test(line.slice(0, 1_000)));

const repositoryForms =
  /\bnot a git repository\b|\bnot in a git (?:repository|directory)\b|\.git can't be found|\bset git hooks\b|\bspawn(?:Sync)? git ENOENT\b|\bgit: (?:command )?not found\b|\bexec: "git": executable file not found\b|\b(?:husky|lefthook|pre-commit)\b.{0,200}\.git\b/i;

/**
 * Runs an installation in a source that is an empty git repository for that time, because scripts that install git hooks fail
 * outside of one. A source has no repository of its own.
 * @returns false when there is a repository, or no git on this machine.
 */
export async function installInRepository(context: BuildContext, install: () => Promise<void>): Promise<boolean> {
  const { sourceDir, env, log, signal } = context;
  const repository = path.join(sourceDir, ".git");
  if ((await exists(repository)) || findProgram("git", env["PATH"] ?? "") === null) return false;
  log.say(
    "A script of the installation needs a git repository, which a source does not have. Installing again in an empty one.",
  );
  try {
    const init = ["git", "init", "--quiet", "--template=", "--initial-branch=main"];
    await runCommand(context, { argv: init, cwd: ".", env: {} }, "InstallFailed");
    await install();
    return true;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof BuildFailure) || !needsRepository(log.lastLines(100))) throw error;
    return false;
  } finally {
    await rm(repository, { recursive: true, force: true });
  }
}

const exists = (file: string) =>
  stat(file).then(
    () => true,
    () => false,
  );
