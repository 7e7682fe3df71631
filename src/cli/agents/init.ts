import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { CliFailure, exitCodes, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { findProject, nameFrom } from "../source/project.ts";
import { harmless } from "../terminal/terminal.ts";
import { shellWord } from "../terminal/text.ts";

/** The templates of this package: beside `src` in a clone, beside `dist` when installed. */
const templatesDirectory = fileURLToPath(new URL("../../../templates/", import.meta.url));

/** Files of a template that do not belong to the project: its description, and what running it leaves behind. */
const notCopied: ReadonlySet<string> = new Set([
  ...["template.json", "node_modules", ".venv", "__pycache__", ".langgraph_api", ".env", ".DS_Store"],
]);

/** Describes the project of a directory, or copies a template into an empty directory. Never changes existing files. */
export async function init(session: Session, [given = "."]: string[], options: { template?: string }): Promise<void> {
  const { context, terminal } = session;
  const directory = path.resolve(context.cwd, given);
  const isEmpty = await isMissingOrEmpty(directory);
  if (!isEmpty && options.template !== undefined) {
    throw usageFailure(
      `${directory} is not empty, and init changes no existing files.`,
      "Name a new directory: pierhead init DIR",
    );
  }
  const template = isEmpty ? await chooseTemplate(session, { directory, given, wanted: options.template }) : null;
  if (template !== null) {
    await copyTemplate(directory, template);
    await nameProject(directory);
  }
  const { found, envFile } = await findProject(directory, undefined, context.cwd);
  session.answer({ directory, template, found }, () => harmless(found));
  const shown = path.relative(context.cwd, directory) || ".";
  terminal.say(isEmpty ? `Began a project in ${directory}.` : `${directory} can be deployed as it is.`);
  if (envFile !== undefined)
    terminal.say(`  Its .env is sent only with --env-from ${path.relative(context.cwd, envFile)}`);
  terminal.say(`  Next: pierhead deploy${shown === "." ? "" : ` ${shown}`}`);
}

async function isMissingOrEmpty(directory: string): Promise<boolean> {
  try {
    return (await readdir(directory)).every((name) => name === ".git");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return true;
    throw usageFailure(code === "ENOTDIR" ? `${directory} is not a directory.` : message);
  }
}

async function chooseTemplate(
  session: Session,
  { directory, given, wanted }: { directory: string; given: string; wanted: string | undefined },
): Promise<string> {
  const templates = await readTemplates();
  const ids = templates.map(({ id }) => id);
  if (wanted !== undefined && ids.includes(wanted)) return wanted;
  if (wanted !== undefined) throw usageFailure(`There is no template ${wanted}.`, `Templates: ${ids.join(", ")}`);
  if (!session.terminal.isInteractive) {
    const words = given === "." ? "" : ` ${shellWord(given)}`;
    const width = Math.max(...ids.map(({ length }) => length));
    throw new CliFailure(`${directory} has no project, and no template was chosen.`, {
      exitCode: exitCodes.cancelled,
      because: ["Templates:", ...templates.map(({ id, name }) => `  ${id.padEnd(width)}  ${name}`)].join("\n"),
      hints: [
        `Begin with a template: pierhead init${words} --template ${ids[0]}`,
        `Deploy your own project from there instead: pierhead deploy${words}`,
      ],
    });
  }
  const { chooseOne } = await import("../terminal/prompt.ts");
  const choices = templates.map(({ id, name, description }) => ({ value: id, label: name, hint: description }));
  return chooseOne(session, "Template", choices);
}

async function readTemplates(): Promise<{ id: string; name: string; description: string }[]> {
  const ids = (await readdir(templatesDirectory)).sort();
  return Promise.all(
    ids.map(async (id) => {
      const { name, description } = JSON.parse(
        await readFile(path.join(templatesDirectory, id, "template.json"), "utf8"),
      );
      return { id, name, description };
    }),
  );
}

/** Gives a Node project the name of its directory, because a deploy takes the name from there. */
async function nameProject(directory: string): Promise<void> {
  const name = nameFrom(path.basename(directory));
  for (const file of ["package.json", "package-lock.json"]) {
    const at = path.join(directory, file);
    const text = await readFile(at, "utf8").catch(() => undefined);
    if (text === undefined) continue;
    const content = JSON.parse(text) as { name: string; packages?: Record<string, { name?: string }> };
    content.name = name;
    const own = content.packages?.[""];
    if (own?.name !== undefined) own.name = name;
    await writeFile(at, `${JSON.stringify(content, null, 2)}\n`);
  }
}

async function copyTemplate(directory: string, id: string): Promise<void> {
  const from = path.join(templatesDirectory, id);
  await mkdir(directory, { recursive: true });
  try {
    await cp(from, directory, {
      recursive: true,
      force: false,
      filter: (file) => !notCopied.has(path.basename(file)),
    });
  } catch (error) {
    throw new CliFailure(`The template could not be copied to ${directory}.`, { because: (error as Error).message });
  }
}
