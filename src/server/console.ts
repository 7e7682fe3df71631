import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Where the build puts the console: beside this program's folders; run from its sources, in `dist/` of the clone. */
export const consoleDirectory = [
  new URL("../console/", import.meta.url),
  new URL("../../dist/console/", import.meta.url),
]
  .map((url) => fileURLToPath(url))
  .find((directory, index) => index === 1 || existsSync(directory)) as string;
