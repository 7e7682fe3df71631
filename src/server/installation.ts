import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { writeDurably } from "./files.ts";

/** Names this installation: the same over all starts on one data directory (decision 0007). */
export async function installationIdOf(dataDir: string): Promise<string> {
  const file = path.join(dataDir, "instance-id");
  const known = await readFile(file, "utf8").catch(() => "");
  if (known.trim() !== "") return known.trim();
  const made = randomUUID();
  await writeDurably(file, `${made}\n`, 0o600);
  return made;
}
