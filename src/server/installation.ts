import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { writeDurably } from "./files.ts";

/**
 * Names this installation: the same over all starts on one data directory (decision 0007).
 * @throws Error when it cannot be read: under another name what runs here would be nobody's.
 */
export async function installationIdOf(dataDir: string): Promise<string> {
  const file = path.join(dataDir, "instance-id");
  const known = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw new Error(`the name of this installation cannot be read (${error.message}): let this user read ${file}`, {
      cause: error,
    });
  });
  if (known.trim() !== "") return known.trim();
  const made = randomUUID();
  await writeDurably(file, `${made}\n`, 0o600);
  return made;
}
