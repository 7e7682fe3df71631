// npm run build: compiles src/ to dist/, copies the files that the program reads at run time next to the code that reads
// them, and builds the console meanwhile.
import { spawn } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, globSync, mkdirSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { root, runOrExit } from "./ensure.mjs";

// Builds into a draft first, so that a server running from dist/ keeps its files until the new ones are complete.
const draft = path.join(root, "dist.new");
const cache = path.join(root, "node_modules", ".cache", "pierhead");

rmSync(draft, { recursive: true, force: true });
// The console has its own packages. Its build installs them once.
const consoleBuild = spawn(process.execPath, ["console/build.mjs", path.join(draft, "console")], {
  cwd: root,
  stdio: ["ignore", "inherit", "inherit"],
});
const consoleBuilt = new Promise((resolve) => consoleBuild.once("exit", resolve));
runOrExit(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json", "--outDir", draft]);

// The engine of agents on PostgreSQL. Its own suite checks its types, because its packages need not be installed here.
const engine = "engines/langgraph-js-postgres";
const engineOptions = ["--noCheck", "--declaration", "false", "--outDir", path.join(draft, engine)];
runOrExit(process.execPath, ["node_modules/typescript/bin/tsc", "-p", engine, ...engineOptions]);

for (const file of globSync("**/*.{sql,json,py,mjs}", { cwd: path.join(root, "src") })) {
  mkdirSync(path.dirname(path.join(draft, file)), { recursive: true });
  copyFileSync(path.join(root, "src", file), path.join(draft, file));
}

// An empty embedded database for the first start, made once per version of PGlite.
mkdirSync(cache, { recursive: true });
const { ensureTemplate } = await import(
  pathToFileURL(path.join(draft, "store/engine/embedded/prepare-directory.js")).href
);
const template = await ensureTemplate(cache);
cpSync(template, path.join(draft, "store/engine/embedded", path.basename(template)));

if ((await consoleBuilt) !== 0) {
  console.error("The console could not be built.");
  process.exit(1);
}
// The installer of a machine upgrades and removes it later, without a download.
copyFileSync(path.join(root, "deploy/install.sh"), path.join(draft, "install.sh"));
// npx links the command once and never updates its mode.
chmodSync(path.join(draft, "main.js"), 0o755);
rmSync(path.join(root, "dist"), { recursive: true, force: true });
renameSync(draft, path.join(root, "dist"));
