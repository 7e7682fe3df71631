import { randomBytes, randomUUID } from "node:crypto";
import { link, mkdir, open, readdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { masterKeyBytes } from "./seal.ts";

/**
 * Reads the master key from a file, and creates the file (mode 0600) on the first start. Without the key the sealed
 * secrets are lost, so back it up, separately from the database.
 * @throws Error when the file contains no key.
 */
export async function readOrCreateMasterKey(file: string): Promise<Buffer> {
  const found = await readIfThere(file);
  if (found !== undefined) {
    await removeDrafts(file);
    return parseMasterKey(found, file);
  }
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomUUID()}`;
  try {
    const handle = await open(draft, "wx", 0o600);
    await handle.writeFile(`${randomBytes(masterKeyBytes).toString("base64")}\n`);
    await handle.sync();
    await handle.close();
    // Linked into place whole. If another process was faster, its key counts, and it may have removed this draft.
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST" && error.code !== "ENOENT") throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
  // Values sealed under the key are durable at once, perhaps on another machine, so the key's file name must be too.
  const directory = await open(path.dirname(file), "r");
  await directory.sync().finally(() => directory.close());
  await removeDrafts(file);
  return parseMasterKey(await readFile(file, "utf8"), file);
}

/**
 * Parses a master key.
 * @param text 32 bytes as 64 hex digits or base64 (with or without padding, either alphabet).
 * @throws Error naming the origin, never the text.
 */
export function parseMasterKey(text: string, origin: string): Buffer {
  const trimmed = text.trim();
  const key = /^[0-9a-f]{64}$/i.test(trimmed) ? Buffer.from(trimmed, "hex") : Buffer.from(trimmed, "base64");
  if (key.length === masterKeyBytes && /^[\w+/-]+={0,2}$/.test(trimmed)) return key;
  throw new Error(`the master key (${origin}) must be ${masterKeyBytes} bytes as base64 or hex`);
}

/** Removes drafts of a process that died while it created the key, so that no other copy of the key and no partial one remains. */
async function removeDrafts(file: string): Promise<void> {
  const names = await readdir(path.dirname(file)).catch(() => []);
  const beginning = `${path.basename(file)}.`;
  const drafts = names.filter((name) => name.startsWith(beginning) && uuid.test(name.slice(beginning.length)));
  for (const draft of drafts) await rm(path.join(path.dirname(file), draft), { force: true });
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
