import { parseCommandLine } from "../detect/command-line.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { buildWithPlaceholders } from "./placeholder-variables.ts";
import { runAll } from "./run-all.ts";
import { isScript, scriptCommand, startCommand } from "./run-script.ts";

/**
 * Runs the build command that a user wrote.
 * @param directory of the project, relative to the root of the source.
 * @throws BuildFailure `BuildFailed`, `CommandInvalid`
 */
export async function runBuildLine(context: BuildContext, directory: string, line: string): Promise<void> {
  const commands = parseCommandLine(line, { cwd: directory, what: "build command" });
  await buildWithPlaceholders(context, directory, (inContext) => runAll(inContext, commands, "BuildFailed"));
}

/**
 * Runs one command of a project's build.
 * @param given a program and its arguments, or `["script:NAME"]`.
 * @throws BuildFailure `BuildFailed`
 */
export async function runBuildCommand(context: BuildContext, directory: string, given: string[]): Promise<void> {
  const { sourceDir } = context;
  const searchPath = context.env["PATH"] ?? "";
  const argv = isScript(given)
    ? await scriptCommand(sourceDir, directory, { argv: given, searchPath })
    : await startCommand(sourceDir, directory, { start: given, searchPath });
  const command = { argv, cwd: directory, env: {} };
  await buildWithPlaceholders(context, directory, (inContext) => runAll(inContext, [command], "BuildFailed"));
}
