import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { Readable } from "node:stream";
import { create } from "tar";
import { createIgnoreRules } from "../../domain/ignore-rules.ts";

/** Nothing of these belongs into an image: history, and packages of another machine. */
const neverSent = new Set([".git", "node_modules", ".venv", "venv", "__pycache__"]);

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
  const text = await readFile(path.join(directory, ".dockerignore"), "utf8").catch(() => "");
  const rules = createIgnoreRules();
  rules.add("", text, "dockerignore");
  const sent: string[] = [];
  const visit = async (inside: string) => {
    for (const entry of await readdir(path.join(directory, inside), { withFileTypes: true })) {
      const file = path.posix.join(inside, entry.name);
      if (file === ".git") continue;
      if (file === dockerfile || !rules.ignoresBelow(file, entry.isDirectory())) sent.push(file);
      // An exception may name something below a directory that is left out.
      if (entry.isDirectory()) await visit(file);
    }
  };
  await visit("");
  return Readable.from(create({ cwd: directory, portable: true, noDirRecurse: true }, sent.map(literal)));
}

/** tar takes a leading `@` for an archive to be merged. */
const literal = (file: string) => (file.startsWith("@") ? `./${file}` : file);
