import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type { CommandProject } from "../detect/pierhead-config.ts";
import { isFileInside, isOutside } from "../sources/inside.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { readScripts } from "./run-script.ts";

/** As Node, tsx and others name a file with variables, without which they do not start. */
const option = /--env-file(?:=|\s+)(["']?)([\w@./-]{1,200})\1(?=\s|$)/g;

/**
 * Adds the environment files, empty, that the scripts of a build or a start name and that the source does not have. Repositories
 * keep such files out, and the deployment has their variables.
 */
export async function layEnvironmentFiles({ sourceDir, log }: BuildContext, project: CommandProject): Promise<void> {
  if (project.python !== null) return;
  const { directory, startDirectory = directory } = project;
  const commands = [project.start, ...project.build, project.afterBuild ?? [], ...(project.launch?.before ?? [])];
  const first = commands.flat().join(" ").replaceAll("script:", "");
  for (const place of new Set([directory, startDirectory])) {
    const reached = reachedScripts(await readScripts(path.join(sourceDir, place)), first);
    const named = [...`${first} ; ${reached.join(" ; ")}`.matchAll(option)].map((match) => match[2] ?? "");
    for (const name of new Set(named)) {
      const file = path.posix.join(place, name);
      if (file.startsWith("../") || path.posix.isAbsolute(name)) continue;
      if (await isFileInside(sourceDir, file)) continue;
      if (await isOutside(sourceDir, path.posix.dirname(file))) continue;
      await mkdir(path.join(sourceDir, path.dirname(file)), { recursive: true });
      const isNew = await writeFile(path.join(sourceDir, file), "", { flag: "wx" }).then(
        () => true,
        () => false, // a link, which may lead elsewhere
      );
      if (isNew) log.say(`Added an empty ${file}, which a script names: the deployment has the variables.`);
    }
  }
}

/** Returns the scripts that a command line names, and those that they name. */
function reachedScripts(scripts: Readonly<Record<string, string>>, line: string): string[] {
  const reached = new Map<string, string>();
  for (const lines = [line]; lines.length > 0; ) {
    const words = new Set(lines.pop()?.split(/[\s'";&|()]+/));
    for (const [name, text] of Object.entries(scripts)) {
      const isNamed = [name, name.replace(/^(?:pre|post)/, "")].some((one) => words.has(one));
      if (!isNamed || reached.has(name) || typeof text !== "string") continue;
      reached.set(name, text);
      lines.push(text);
    }
  }
  return [...reached.values()];
}
