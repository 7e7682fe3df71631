import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { writeDurably } from "./files.ts";

/**
 * Returns the id of this installation, which stays the same for all starts on one data directory (decision 0007).
 * @throws Error when the file cannot be read. A new id would orphan the running replicas.
 */
export async function installationIdOf(dataDir: string): Promise<string> {
  const file = path.join(dataDir, "instance-id");
  const known = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw new Error(`cannot read the id of this installation (${error.message}): let this user read ${file}`, {
      cause: error,
    });
  });
  if (known.trim() !== "") return known.trim();
  const made = randomUUID();
  await writeDurably(file, `${made}\n`, 0o600);
  return made;
}
