import { open, readFile, rename } from "node:fs/promises";

/** The file has its old content or all of the new one, also after a power cut. */
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

/** @returns undefined when there is no such file, or nothing readable in it. */
export async function readJson<T>(file: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as T;
  } catch {
    return undefined;
  }
}
