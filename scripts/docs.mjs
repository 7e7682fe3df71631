// npm run docs: builds docs/site/dist, the documentation as a site. Fails on a link that leads nowhere.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { root, runOrExit } from "./ensure.mjs";

const site = path.join(root, "docs", "site");
const installed = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], {
  cwd: site,
  stdio: "inherit",
});
if (installed.status !== 0) process.exit(1);
runOrExit(process.execPath, ["docs/site/node_modules/vitepress/bin/vitepress.js", "build", "docs/site"]);
