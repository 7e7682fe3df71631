import { createRequire } from "node:module";

/** Of the package this file belongs to; the same two steps up from `src/cli` and from `dist/cli`. */
export function clientVersion(): string {
  return (createRequire(import.meta.url)("../../package.json") as { version: string }).version;
}
