import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { denoConfigs } from "../../domain/config-path.ts";
import { denoLinks } from "../../domain/detection/deno-server.ts";
import { isDirectoryInside } from "../sources/inside.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { installCommand } from "./install-command.ts";
import { installPackages } from "./install-packages.ts";
import { runAll } from "./run-all.ts";
import { buildSiblings, isBuilt, readManifest } from "./workspace-siblings.ts";

/**
 * Builds the packages that Deno uses from directories above the project instead of published ones. Links to directories that are not
 * in the source are removed from the configuration, so that Deno uses the published packages.
 * @param directory of the project, relative to the root of the source.
 * @throws BuildFailure `InstallFailed`, `BuildFailed`
 */
export async function buildDenoLinks(context: BuildContext, directory: string): Promise<void> {
  const { sourceDir, log } = context;
  for (const config of denoConfigs) {
    const file = path.join(sourceDir, directory, config);
    const text = await readFile(file, "utf8").catch(() => "");
    const missing = new Set<string>();
    for (const link of denoLinks(text)) {
      const linked = path.posix.join(directory, link);
      if (await isDirectoryInside(sourceDir, linked)) await buildLinked(context, linked);
      else missing.add(link);
    }
    if (missing.size === 0) continue;
    log.say(
      `Note: ${config} links to ${[...missing].join(", ")}, which is not in the source. Using the published package.`,
    );
    await writeFile(file, withoutLinks(text, missing));
  }
}

async function buildLinked(context: BuildContext, linked: string): Promise<void> {
  const { sourceDir, env, log } = context;
  const manifest = await readManifest(path.join(sourceDir, linked));
  if (manifest.scripts?.["build"] === undefined || (await isBuilt(path.join(sourceDir, linked), manifest))) return;
  log.say(`The project uses ${linked}, which is not built yet: building it first.`);
  await installPackages(context, { directory: linked, installCommand: null });
  await buildSiblings(context, linked);
  const install = await installCommand(sourceDir, linked, env["PATH"] ?? "");
  const argv = [...(install?.manager ?? ["npm"]), "run", "build"];
  await runAll(context, [{ argv, cwd: linked, env: {} }], "BuildFailed");
}

/** Keeps the comments of the configuration. */
const withoutLinks = (text: string, missing: ReadonlySet<string>) =>
  text.replace(/("(?:links|patch)"\s*:\s*)\[([^\]]*)\]/g, (_, name: string, list: string) => {
    const links = [...list.matchAll(/"([^"\n]*)"/g)].map(([, link = ""]) => link);
    return `${name}${JSON.stringify(links.filter((link) => !missing.has(link)))}`;
  });
