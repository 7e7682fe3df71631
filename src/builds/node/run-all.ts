import type { Command } from "../detect/command-line.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { withManager } from "./install-command.ts";

/** Runs programs one after another. Package managers that this machine lacks are run through npm. */
export async function runAll(
  context: BuildContext,
  commands: readonly Command[],
  reason: "InstallFailed" | "BuildFailed",
): Promise<void> {
  for (const given of commands) {
    const command = await withManager(given, context.sourceDir, context.env["PATH"] ?? "");
    const run = isNpmCi(command) ? (context.runNpmCi ?? runCommand) : runCommand;
    await run(context, command, reason);
  }
}

const isNpmCi = ({ argv, env }: Command) => argv.join(" ") === "npm ci" && Object.keys(env).length === 0;
