import { type Command, parseCommandLine } from "../detect/command-line.ts";
import { BuildFailure } from "../failure.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { installCommand, withManager } from "./install-command.ts";
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
    if (!(error instanceof BuildFailure) || command.manager[0] !== "npm" || command.manager.length > 1) throw error;
    if (!context.log.lastLines(50).some((line) => /\bERESOLVE\b/.test(line))) throw error;
    context.log.say(
      "The packages of this project disagree about the versions of their peers. Trying again with --legacy-peer-deps, as npm suggests. To say it in the project, add legacy-peer-deps=true to .npmrc.",
    );
    await runAll(context, [{ ...command, argv: [...command.argv, "--legacy-peer-deps"] }], "InstallFailed");
  }
}

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
