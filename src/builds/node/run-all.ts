import type { Command } from "../detect/command-line.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { withManager } from "./install-command.ts";
import { isNpmCi, runNpmCi } from "./npm-ci.ts";

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
