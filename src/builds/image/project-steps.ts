import { BuildFailure, ProgramFailure } from "../failure.ts";
import { runBuildCommand, runBuildLine, runIfPossible } from "../node/build-project.ts";
import { installPackages } from "../node/install-packages.ts";
import { addStartFile } from "../node/start-file.ts";
import { buildSiblings } from "../node/workspace-siblings.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { stepContext } from "./step-context.ts";

/**
 * Runs a step of a JavaScript project's build while an image is built, with the repairs of a build on the host: the working
 * directory is the root of the source. Arguments: the step, the directory of the project, and the rest of the step.
 */
const steps: Record<string, (context: BuildContext, directory: string, rest: string[]) => Promise<void>> = {
  install: (context, directory) => installPackages(context, { directory, installCommand: null }),
  "install-with": (context, directory, [line = ""]) => installPackages(context, { directory, installCommand: line }),
  siblings: (context, directory) => buildSiblings(context, directory),
  build: (context, directory, argv) => runBuildCommand(context, directory, argv),
  "build-if-possible": runIfPossible,
  "start-file": addStartFile,
  "build-with": (context, directory, [line = ""]) => runBuildLine(context, directory, line),
};

/** The exit code of a program that was killed, most often because memory ran out: 128 + SIGKILL, as a shell returns it. */
const killedCode = 137;

async function main([step = "", directory = ".", ...rest]: string[]): Promise<number> {
  try {
    await steps[step]?.(stepContext(process.cwd()), directory, rest);
    return 0;
  } catch (error) {
    if (error instanceof ProgramFailure) return error.exitCode ?? killedCode;
    console.error(error instanceof BuildFailure ? error.message : error);
    return 1;
  }
}

process.exit(await main(process.argv.slice(2)));
