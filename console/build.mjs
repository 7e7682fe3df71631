// node console/build.mjs DIRECTORY: installs what the console is built with, unless it is there, and builds it.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const stamp = path.join(here, "node_modules", ".pierhead-lock");

ensureInstalled();
const [outDir] = process.argv.slice(2);
if (outDir !== undefined) {
  const { build } = await import("vite");
  await build({
    root: here,
    configFile: false,
    // Wherever it is mounted: the server writes the base into the page.
    base: "./",
    logLevel: "error",
    build: {
      outDir: path.resolve(outDir),
      emptyOutDir: true,
      target: "es2022",
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      // What the client loads when it is first used comes with the page all the same: one that stays open while another
      // version takes the server's place could not load it any more.
      rolldownOptions: {
        output: { codeSplitting: { groups: [{ name: "client", test: /[\\/]src[\\/]client[\\/]/ }] } },
      },
      reportCompressedSize: false,
    },
  });
}

/** Ends the process with npm's code when that fails. */
function ensureInstalled() {
  const lock = createHash("sha256")
    .update(readFileSync(path.join(here, "package-lock.json")))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  const argv = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const ended = spawnSync(npm, argv, { cwd: here, stdio: ["ignore", 2, 2] });
  if (ended.status !== 0) process.exit(ended.status ?? 1);
  writeFileSync(stamp, lock);
}
