import { lstatSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { Readable } from "node:stream";
import { create } from "tar";
import { createIgnoreRules } from "../../domain/ignore-rules.ts";
import { BuildFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";
import { downloadsDir } from "./added-downloads.ts";

/** Names that are never copied into an image: history, and packages of another machine. */
const neverSent = new Set([".git", "node_modules", ".venv", "venv", "__pycache__"]);

/**
 * Checks that all names of a source are UTF-8, because it cannot be packed otherwise: git and a checkout allow other bytes.
 * @throws BuildFailure `Unsupported` with the first name that is not
 */
export async function checkNames(directory: string, inside = ""): Promise<void> {
  for (const entry of await readdir(path.join(directory, inside), { withFileTypes: true })) {
    const file = path.posix.join(inside, entry.name);
    if (neverSent.has(entry.name)) continue;
    if (!isText(directory, file)) throw notText(file);
    if (entry.isDirectory()) await checkNames(directory, file);
  }
}

/** Returns whether a name is UTF-8. Node reads other bytes as U+FFFD, and no file with that name exists. */
const isText = (directory: string, file: string) =>
  !file.includes("\uFFFD") || lstatSync(path.join(directory, file), { throwIfNoEntry: false }) !== undefined;

const notText = (file: string) =>
  new BuildFailure("Unsupported", `The name of '${file}' is not UTF-8, so it cannot be put into an image. Rename it.`);

/**
 * Packs a build context for the engine: a tar of the given entries of a directory. It omits owners. Times do not matter,
 * because the engine's cache compares contents only.
 */
export function packContext(directory: string, entries: string[]): Readable {
  const isSent = (file: string) => !file.split("/").some((part) => neverSent.has(part));
  return Readable.from(create({ cwd: directory, portable: true, filter: isSent }, entries));
}

/** Packs the context of a project with its own Dockerfile. Only its `.dockerignore` decides what is excluded. */
export async function packOwnContext(directory: string, dockerfile: string): Promise<Readable> {
  // As with the configuration, a link that leaves the source is not followed.
  const hasRules = await isFileInside(directory, ".dockerignore");
  const text = hasRules ? await readFile(path.join(directory, ".dockerignore"), "utf8") : "";
  const rules = createIgnoreRules();
  rules.add("", text, "dockerignore");
  const isOwn = (file: string) => file === dockerfile || file === downloadsDir || file.startsWith(`${downloadsDir}/`);
  const sent: string[] = [];
  const visit = async (inside: string) => {
    for (const entry of await readdir(path.join(directory, inside), { withFileTypes: true })) {
      const file = path.posix.join(inside, entry.name);
      if (file === ".git") continue;
      const isSent = isOwn(file) || !rules.ignoresBelow(file, entry.isDirectory());
      if (!isText(directory, file)) {
        if (isSent) throw notText(file);
        continue;
      }
      if (isSent) sent.push(file);
      // An exception may include a file below an excluded directory.
      if (entry.isDirectory()) await visit(file);
    }
  };
  await visit("");
  return Readable.from(create({ cwd: directory, portable: true, noDirRecurse: true }, sent.map(literal)));
}

/** Escapes a leading `@`, which tar interprets as an archive to merge. */
const literal = (file: string) => (file.startsWith("@") ? `./${file}` : file);
