import path from "node:path";
import { type Command, parseCommandLine, showCommand } from "../detect/command-line.ts";
import { BuildFailure, ProgramFailure } from "../failure.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { buildDenoLinks } from "./deno-links.ts";
import { buildWithLocalFonts } from "./local-fonts.ts";
import { buildWithPlaceholders } from "./placeholder-variables.ts";
import { runAll } from "./run-all.ts";
import { isScript, scriptCommand, shownCommand, withOwnProgram } from "./run-script.ts";

/**
 * Runs the build command that a user wrote.
 * @param directory of the project, relative to the root of the source.
 * @throws BuildFailure `BuildFailed`, `CommandInvalid`
 */
export async function runBuildLine(context: BuildContext, directory: string, line: string): Promise<void> {
  const commands = parseCommandLine(line, { cwd: directory, what: "build command" });
  await build(context, directory, commands);
}

/**
 * Runs one command of a project's build.
 * @param given a program and its arguments, or `["script:NAME"]`.
 * @throws BuildFailure `BuildFailed`
 */
export async function runBuildCommand(context: BuildContext, directory: string, given: string[]): Promise<void> {
  const { sourceDir } = context;
  const searchPath = context.env["PATH"] ?? "";
  if (given.some((word) => path.posix.basename(word) === "deno")) await buildDenoLinks(context, directory);
  const argv = isScript(given)
    ? await scriptCommand(sourceDir, directory, { argv: given, searchPath })
    : await withOwnProgram(sourceDir, directory, given);
  await build(context, directory, [{ argv, cwd: directory, env: {} }]);
}

/**
 * Runs a command without which the server may still start: one that needs a variable of the deployment, or the build of a project
 * that runs its sources.
 */
export async function runIfPossible(context: BuildContext, directory: string, argv: string[]): Promise<void> {
  try {
    await runBuildCommand(context, directory, argv);
  } catch (error) {
    context.signal.throwIfAborted();
    if (!(error instanceof BuildFailure) || error.reason === "DiskFull") throw error;
    context.log.say(
      `Note: \`${showCommand(shownCommand(argv))}\` failed. The build goes on without it, because the server may not need it.`,
    );
  }
}

async function build(context: BuildContext, directory: string, commands: Command[]): Promise<void> {
  try {
    const run = (inContext: BuildContext) => runAll(inContext, commands, "BuildFailed");
    await buildWithLocalFonts(context, (inContext) => buildWithPlaceholders(inContext, directory, run));
  } catch (error) {
    context.signal.throwIfAborted();
    const found = error instanceof ProgramFailure ? causeIn(context.log.lastLines(100)) : null;
    if (!(error instanceof ProgramFailure) || found === null) throw error;
    context.log.say(found);
    throw new ProgramFailure(error.reason, `${found}\n${error.message}`, error.exitCode);
  }
}

/** Causes that frameworks report in many lines, and what to do. */
const causes: [form: RegExp, because: string][] = [
  [
    /\bTS5083: Cannot read file /,
    "tsconfig.json extends a file that is not in the source. Deploy the directory that contains both, with --config DIRECTORY/package.json.",
  ],
  [
    /Failed to fetch .{0,200} from Google Fonts|\b(?:request\w*|E[A-Z_]{5,20}) .{0,200}\bfonts\.(?:googleapis|gstatic)\.com/,
    "The build downloads fonts from Google (next/font/google), which this machine cannot reach. Let builds reach fonts.googleapis.com and fonts.gstatic.com, or keep the fonts in the project with next/font/local.",
  ],
  [
    /\bJSR package manifest for .{1,200} failed to load|\bImport 'https:\/\/.{1,300}' failed/,
    "Deno could not download a module that the project imports. Let builds reach the host that the last lines name, or import the package from npm (npm:NAME).",
  ],
];

function causeIn(lines: readonly string[]): string | null {
  return causes.find(([form]) => lines.some((line) => form.test(line.slice(0, 1_000))))?.[1] ?? null;
}
