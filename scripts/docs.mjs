// npm run docs: builds docs/site/dist, the documentation as a site. Fails on a link that leads nowhere.
// npm run docs -- --versions DIR: builds it into DIR/VERSION instead, beside the versions that are there, with a page to choose one.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { root, runOrExit } from "./ensure.mjs";

const site = path.join(root, "docs", "site");
const [option, directory] = process.argv.slice(2);
if (option !== undefined && (option !== "--versions" || directory === undefined)) {
  console.error("usage: npm run docs [-- --versions DIR]");
  process.exit(1);
}
const installed = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], {
  cwd: site,
  stdio: "inherit",
});
if (installed.status !== 0) process.exit(1);
const vitepress = ["docs/site/node_modules/vitepress/bin/vitepress.js", "build", "docs/site"];
if (directory === undefined) runOrExit(process.execPath, vitepress);
else {
  const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
  const outDir = path.resolve(directory, version);
  mkdirSync(outDir, { recursive: true });
  process.env.PIERHEAD_DOCS_VERSIONS = "1";
  runOrExit(process.execPath, [...vitepress, "--base", `/${version}/`, "--outDir", outDir]);
  const newestFirst = (one, other) => other.localeCompare(one, "en", { numeric: true });
  const versions = readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /^\d+\.\d+\.\d+/.test(entry.name))
    .map(({ name }) => name)
    .sort(newestFirst);
  // The pages of a version cannot list later versions, so their switch leads to versions.html, which lists all.
  const moveTo = (address) =>
    `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=${address}"><a href="${address}">Pierhead</a>\n`;
  const items = versions.map(
    (one) => `<li><a href="${one}/">Pierhead ${one}</a>${one === versions[0] ? ", the newest" : ""}</li>`,
  );
  const head =
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">';
  const style =
    "<style>:root { color-scheme: light dark; font: 1rem/1.6 system-ui; } body { margin: 3rem auto; max-width: 40rem; padding: 0 1rem; }</style>";
  writeFileSync(
    path.join(directory, "versions.html"),
    `${head}<title>Versions of Pierhead</title>${style}<h1>Versions of Pierhead</h1><ul>${items.join("")}</ul></html>\n`,
  );
  writeFileSync(path.join(directory, "index.html"), moveTo(`${versions[0]}/`));
  writeFileSync(path.join(outDir, "versions.html"), moveTo("../versions.html"));
  console.log(`${versions.length} version(s) in ${directory}: ${versions.join(", ")}`);
}
