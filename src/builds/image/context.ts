import { lstatSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { Readable } from "node:stream";
import { create } from "tar";
import { createIgnoreRules } from "../../domain/ignore-rules.ts";
import { BuildFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";

/** Nothing of these belongs into an image: history, and packages of another machine. */
const neverSent = new Set([".git", "node_modules", ".venv", "venv", "__pycache__"]);

/**
 * A source can be packed only when all its names are text: git keeps others as they are, and so does a checkout.
 * @throws BuildFailure `Unsupported` naming the first one that is not
 */
export async function checkNames(directory: string, inside = ""): Promise<void> {
  for (const entry of await readdir(path.join(directory, inside), { withFileTypes: true })) {
    const file = path.posix.join(inside, entry.name);
    if (neverSent.has(entry.name)) continue;
    if (!isText(directory, file)) throw notText(file);
    if (entry.isDirectory()) await checkNames(directory, file);
  }
}

/** Bytes that are no UTF-8 are read as U+FFFD, and a file of that name there is none. */
const isText = (directory: string, file: string) =>
  !file.includes("\uFFFD") || lstatSync(path.join(directory, file), { throwIfNoEntry: false }) !== undefined;

const notText = (file: string) =>
  new BuildFailure("Unsupported", `The name of '${file}' is not UTF-8, so it cannot be put into an image. Rename it.`);

/**
 * A build context as the engine takes it: a tar of the given entries of a directory. Owners are left out; times do not
 * matter, for the engine's cache looks at contents only.
 */
export function packContext(directory: string, entries: string[]): Readable {
  const isSent = (file: string) => !file.split("/").some((part) => neverSent.has(part));
  return Readable.from(create({ cwd: directory, portable: true, filter: isSent }, entries));
}

/** The same for a project with a Dockerfile of its own: its `.dockerignore` says what stays out, and nobody else. */
export async function packOwnContext(directory: string, dockerfile: string): Promise<Readable> {
  // As with the configuration, a link out of the source is not followed.
  const hasRules = await isFileInside(directory, ".dockerignore");
  const text = hasRules ? await readFile(path.join(directory, ".dockerignore"), "utf8") : "";
  const rules = createIgnoreRules();
  rules.add("", text, "dockerignore");
  const sent: string[] = [];
  const visit = async (inside: string) => {
    for (const entry of await readdir(path.join(directory, inside), { withFileTypes: true })) {
      const file = path.posix.join(inside, entry.name);
      if (file === ".git") continue;
      const isSent = file === dockerfile || !rules.ignoresBelow(file, entry.isDirectory());
      if (!isText(directory, file)) {
        if (isSent) throw notText(file);
        continue;
      }
      if (isSent) sent.push(file);
      // An exception may name something below a directory that is left out.
      if (entry.isDirectory()) await visit(file);
    }
  };
  await visit("");
  return Readable.from(create({ cwd: directory, portable: true, noDirRecurse: true }, sent.map(literal)));
}

/** tar takes a leading `@` for an archive to be merged. */
const literal = (file: string) => (file.startsWith("@") ? `./${file}` : file);
