// node console/build.mjs DIRECTORY: installs the console's packages if they are missing, and builds the console.
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
    // The server writes the base path into the page, so the build works under any path.
    base: "./",
    logLevel: "error",
    plugins: [{ name: "preload-app", transformIndexHtml: { order: "post", handler: preloadApp } }],
    build: {
      outDir: path.resolve(outDir),
      emptyOutDir: true,
      target: "es2022",
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      // One chunk holds the whole client, so the page loads it at the start. A page that stays open during an upgrade
      // could not load parts of the client later, because the new server does not have these files.
      rolldownOptions: {
        output: { codeSplitting: { groups: [{ name: "client", test: /[\\/]src[\\/]client[\\/]/ }] } },
      },
      reportCompressedSize: false,
    },
  });
}

/** Loads the scripts of the application beside the entry, which asks for the first data meanwhile. */
function preloadApp(html, { bundle }) {
  const chunks = Object.values(bundle);
  const app = chunks.find(({ facadeModuleId }) => facadeModuleId?.endsWith("/src/app.tsx"));
  const files = [app.fileName, ...app.imports].filter((file) => !html.includes(file));
  return files.map((file) => ({
    ...{ tag: "link", injectTo: "head" },
    attrs: { rel: "modulepreload", crossorigin: true, href: `./${file}` },
  }));
}

/** Installs the packages of the lock file. Exits with npm's code when npm fails. */
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
