import { randomBytes, randomUUID } from "node:crypto";
import { link, mkdir, open, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { masterKeyBytes } from "./seal.ts";

/**
 * Reads the master key from a file, making the file (mode 0600) on the first start. Lose it, and the sealed secrets are
 * lost: it belongs into the backup, apart from the database.
 * @throws Error when the file holds no key.
 */
export async function readOrCreateMasterKey(file: string): Promise<Buffer> {
  const found = await readIfThere(file);
  if (found !== undefined) return parseMasterKey(found, file);
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomUUID()}`;
  try {
    const handle = await open(draft, "wx", 0o600);
    await handle.writeFile(`${randomBytes(masterKeyBytes).toString("base64")}\n`);
    await handle.sync();
    await handle.close();
    // Linked into place whole; if another process was faster, its key counts.
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
  return parseMasterKey(await readFile(file, "utf8"), file);
}

/**
 * @param text 32 bytes as 64 hex digits or base64 (with or without padding, either alphabet).
 * @throws Error naming where it came from, never the text.
 */
export function parseMasterKey(text: string, origin: string): Buffer {
  const trimmed = text.trim();
  const key = /^[0-9a-f]{64}$/i.test(trimmed) ? Buffer.from(trimmed, "hex") : Buffer.from(trimmed, "base64");
  if (key.length === masterKeyBytes && /^[\w+/-]+={0,2}$/.test(trimmed)) return key;
  throw new Error(`the master key (${origin}) must be ${masterKeyBytes} bytes as base64 or hex`);
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
