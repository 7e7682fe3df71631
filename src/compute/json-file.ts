import { open, readFile, rename } from "node:fs/promises";

/** Writes a file atomically: it has its old or its complete new content, also after a power cut. */
export async function writeJson(file: string, value: unknown): Promise<void> {
  const draft = `${file}.draft`;
  const handle = await open(draft, "w", 0o600);
  try {
    await handle.writeFile(JSON.stringify(value));
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
}

/**
 * Reads a JSON file.
 * @returns undefined when the file does not exist or is not JSON.
 * @throws Error when the file cannot be read, because its content is then unknown.
 */
export async function readJson<T>(file: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as T;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
