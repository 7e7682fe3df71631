import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Directory of the built console: beside the program's folders in a package, or `dist/` of a clone when run from source. */
export const consoleDirectory = [
  new URL("../console/", import.meta.url),
  new URL("../../dist/console/", import.meta.url),
]
  .map((url) => fileURLToPath(url))
  .find((directory, index) => index === 1 || existsSync(directory)) as string;
