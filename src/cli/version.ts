import { readFileSync } from "node:fs";

/** Returns the version of this package. The relative path is the same from `src/cli` and `dist/cli`. */
export function clientVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
