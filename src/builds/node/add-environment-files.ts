import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type { CommandProject } from "../detect/pierhead-config.ts";
import { canMakeDirectory, isFileInside } from "../sources/inside.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { readScripts } from "./run-script.ts";

/** Option of Node, tsx and others that names a file with variables. They do not start if the file is missing. */
const option = /--env-file(?:=|\s+)(["']?)([\w@./-]{1,200})\1(?=\s|$)/g;

/**
 * Adds an empty file for each environment file that the scripts of a build or a start name and the source lacks. Repositories
 * exclude such files, and the deployment has their variables.
 */
export async function addEnvironmentFiles({ sourceDir, log }: BuildContext, project: CommandProject): Promise<void> {
  if (project.python !== null) return;
  const { directory, startDirectory = directory } = project;
  const commands = [project.start, ...project.build, project.afterBuild ?? [], ...(project.launch?.before ?? [])];
  const first = commands.flat().join(" ").replaceAll("script:", "");
  for (const root of new Set([directory, startDirectory])) {
    const reached = reachedScripts(await readScripts(sourceDir, root), first);
    const named = [...`${first} ; ${reached.join(" ; ")}`.matchAll(option)].map((match) => match[2] ?? "");
    for (const name of new Set(named)) {
      const file = path.posix.join(root, name);
      if (file.startsWith("../") || path.posix.isAbsolute(name)) continue;
      if (await isFileInside(sourceDir, file)) continue;
      if (!(await canMakeDirectory(sourceDir, path.posix.dirname(file)))) continue;
      await mkdir(path.join(sourceDir, path.dirname(file)), { recursive: true });
      const isNew = await writeFile(path.join(sourceDir, file), "", { flag: "wx" }).then(
        () => true,
        () => false, // The name is a link, which may lead out of the source.
      );
      if (isNew) log.say(`Added an empty ${file}, because a script names it. The deployment has its variables.`);
    }
  }
}

/** Returns the scripts that a command line names, and the scripts that these name in turn. */
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
