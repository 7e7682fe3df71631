import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { installCommand } from "./install-command.ts";
import { withoutNames } from "./lock-file.ts";

/** Updates LangChain's packages when no agent server works with their locked versions. @returns whether an update ran. */
export const updateLanggraph = (context: BuildContext, directory: string): Promise<boolean> =>
  updatePackages(context, {
    directory,
    isMeant: (name) => /^(@langchain\/|langchain$)/.test(name),
    because: "No LangGraph.js server works with the versions in the lock file.",
  });

/**
 * Updates packages of a project whose lock file is too old, as far as package.json allows. The lock file in the repository stays as
 * it is.
 * @param directory relative to the root of the source.
 * @param isMeant selects dependencies of package.json.
 * @param because for the build log.
 * @returns whether an update ran; without a lock file, the newest versions are installed already.
 * @throws BuildFailure `InstallFailed`
 */
async function updatePackages(
  context: BuildContext,
  { directory, isMeant, because }: { directory: string; isMeant: (name: string) => boolean; because: string },
): Promise<boolean> {
  const command = await installCommand(context.sourceDir, directory, context.env["PATH"] ?? "");
  const manifest = await readFile(path.join(context.sourceDir, directory, "package.json"), "utf8").catch(() => "{}");
  const { dependencies = {} } = JSON.parse(manifest) as { dependencies?: Record<string, string> };
  const names = Object.keys(dependencies).filter(isMeant);
  if (command === null || command.update === null || names.length === 0) return false;
  context.log.say(`${because} Updating ${names.join(", ")} as far as package.json allows.`);
  const { unlocked } = command;
  // Yarn 1 leaves the versions of a workspace as they are when it updates a member.
  if (unlocked !== null && command.update[0] === "upgrade" && command.cwd !== path.posix.normalize(directory)) {
    const lockFile = path.join(context.sourceDir, unlocked.lockFile);
    await writeFile(lockFile, withoutNames(await readFile(lockFile, "utf8"), names));
    await runCommand(context, { ...command, argv: unlocked.argv }, "InstallFailed");
    return true;
  }
  const argv = [...command.manager, ...command.update, ...names];
  await runCommand(context, { ...command, argv, cwd: directory }, "InstallFailed");
  return true;
}
