// npm run check: types, format and lint.
import { node, runOrExit } from "./ensure.mjs";

runOrExit(node, ["node_modules/typescript/bin/tsc", "--pretty"]);
// Installs the console's packages, because checking its types needs theirs.
runOrExit(node, ["console/build.mjs"]);
runOrExit(node, ["node_modules/typescript/bin/tsc", "-p", "console", "--pretty"]);
runOrExit(node, [
  "node_modules/@biomejs/biome/bin/biome",
  "ci",
  "--error-on-warnings",
  ...(process.env.CI ? ["--colors=off"] : []),
  ".",
]);
