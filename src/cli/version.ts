import { readFileSync } from "node:fs";

/** Of the package this file belongs to; the same two steps up from `src/cli` and from `dist/cli`. */
export function clientVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
