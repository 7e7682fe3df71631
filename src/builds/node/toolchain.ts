import { createHash } from "node:crypto";
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { installOnce } from "../cache/install-once.ts";
import { moveWhole } from "../cache/move-atomically.ts";
import manifest from "../toolchains/langgraph-js.package.json" with { type: "json" };
import lock from "../toolchains/langgraph-js.package-lock.json" with { type: "json" };
import { type BuildContext, runCommand } from "../worker/run-command.ts";

const apiPackage = "@langchain/langgraph-api";

/** Version of the open LangGraph.js server, with a digest of everything that is installed with it. */
export const toolchainVersion = `${manifest.dependencies[apiPackage]}-${createHash("sha256")
  .update(JSON.stringify([manifest, lock]))
  .digest("hex")
  .slice(0, 12)}`;

/**
 * Returns the directory whose node_modules contains the LangGraph.js server for a project. If the project depends on the
 * server itself, that is the project, so that all packages exist once. Otherwise it is a directory shared by all builds,
 * which the first of them installs from the lock file beside this module.
 *
 * To move to another version: edit the package.json in toolchains/, run `npm install --package-lock-only` on a copy of
 * it in an empty directory, and copy the lock file back.
 * @throws BuildFailure `ToolchainFailed`
 */
export async function langgraphToolchain(context: BuildContext, projectDir: string): Promise<string> {
  const own = await ownServerVersion(projectDir);
  if (own !== null) {
    context.log.say(`The project includes ${apiPackage} ${own}.`);
    return projectDir;
  }
  const directory = path.join(context.cacheDir, "toolchains", `langgraph-js-${toolchainVersion}`);
  await installOnce(context, directory, () => install(context, directory));
  return directory;
}

/** `npm ci` rejects a lock file in which npm on another platform omitted optional packages; `npm install` adds them. */
const installArgv = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"];

async function install(context: BuildContext, directory: string): Promise<void> {
  context.log.say(`Installing ${apiPackage} ${manifest.dependencies[apiPackage]}, once for all agents of this server.`);
  const unfinished = `${directory}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true });
  await writeFile(path.join(unfinished, "package.json"), JSON.stringify(manifest, null, 2));
  await writeFile(path.join(unfinished, "package-lock.json"), JSON.stringify(lock, null, 2));
  await runCommand({ ...context, sourceDir: unfinished }, { argv: installArgv, cwd: ".", env: {} }, "ToolchainFailed");
  await moveWhole(unfinished, directory, context).catch(async (error: unknown) => {
    if ((await stat(directory).catch(() => null)) === null) throw error;
  });
}

/** Returns the version of the project's own server. @returns null when it has none, or one too old to start from outside. */
async function ownServerVersion(projectDir: string): Promise<string | null> {
  try {
    const require = createRequire(path.join(projectDir, "package.json"));
    require.resolve(`${apiPackage}/server`);
    const found: unknown = JSON.parse(await readFile(require.resolve(`${apiPackage}/package.json`), "utf8"));
    const { version } = found as { version: string };
    return Number.parseInt(version, 10) >= 1 ? version : null;
  } catch {
    return null;
  }
}
