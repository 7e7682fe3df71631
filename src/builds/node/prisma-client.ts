import { readFile } from "node:fs/promises";
import path from "node:path";
import { BuildFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { type Install, managerName } from "./install-command.ts";
import { listedIn } from "./install-scripts.ts";
import { runAll } from "./run-all.ts";

/**
 * Generates the client of Prisma where pnpm did not run its installation script, which does that. pnpm from version 10 on runs only
 * scripts that the project approves, and with an empty client each server fails on its first import of it.
 * @param directory of the project, relative to the root of the source.
 */
export async function generatePrismaClient(context: BuildContext, command: Install, directory: string): Promise<void> {
  const { sourceDir, log } = context;
  if (managerName(command) !== "pnpm") return;
  const read = (...names: string[]) => readFile(path.join(sourceDir, ...names), "utf8").catch(() => "");
  const ignored = listedIn(await read(command.cwd, "node_modules/.modules.yaml"), "ignoredBuilds");
  if (!ignored.some((name) => /^@prisma\/client(?:@|$)/.test(name))) return;
  const manifest = await read(directory, "package.json");
  const schemas = ["prisma/schema.prisma", "schema.prisma", "prisma.config.ts"].map((file) =>
    path.join(directory, file),
  );
  const found = await Promise.all(schemas.map((file) => isFileInside(sourceDir, file)));
  const hasSchema = found.includes(true) || /"schema"\s*:\s*"[^"]{1,200}\bprisma\b/.test(manifest);
  if (!hasSchema || /\bprisma generate\b/.test(manifest)) return;
  log.say(
    'pnpm did not run the installation script of @prisma/client, because the project does not approve it. Generating the client instead. To do so in the project, add "postinstall": "prisma generate" to its scripts.',
  );
  try {
    const argv = [...command.manager, "exec", "prisma", "generate"];
    await runAll(context, [{ argv, cwd: directory, env: command.env }], "InstallFailed");
  } catch (error) {
    if (!(error instanceof BuildFailure) || error.reason === "DiskFull") throw error;
    log.say(
      "Note: `prisma generate` failed. The build goes on without it: the server runs if it does not need the client.",
    );
  }
}
