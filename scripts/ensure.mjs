// Plain JavaScript for any Node >= 20, because it runs before anything is installed.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const stamp = path.join(root, "node_modules", ".pierhead-lock");

/** The Node that the project brings. Every script and test runs on it, whatever version the host has. */
export const node = path.join(root, "node_modules", "node", "bin", process.platform === "win32" ? "node.exe" : "node");

/** Installs the packages of package-lock.json unless they are installed. Ends the process with npm's code when npm fails. */
export function ensureInstalled() {
  const lock = createHash("sha256")
    .update(readFileSync(path.join(root, "package-lock.json")))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock && existsSync(node)) return;
  console.error("Installing dependencies (once) ...");
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  runOrExit(npm, ["ci", "--no-audit", "--no-fund", "--loglevel=error"], { stdio: ["ignore", 2, 2] });
  writeFileSync(stamp, lock);
}

/** Returns whether dist/ is missing or older than one of its sources. */
export function isBuildOld() {
  const program = path.join(root, "dist", "main.js");
  if (!existsSync(program)) return true;
  const builtAt = statSync(program).mtimeMs;
  const sources = ["src", "console/src", "engines/langgraph-js-postgres/src"].flatMap((directory) =>
    readdirSync(path.join(root, directory), { recursive: true }).map((file) => path.join(directory, file)),
  );
  const own = ["console/package-lock.json", "console/index.html", "console/build.mjs"];
  const inputs = ["package-lock.json", "tsconfig.build.json", ...own, ...sources];
  return inputs.some((file) => statSync(path.join(root, file)).mtimeMs > builtAt);
}

/** Runs a program in the project's folder. When it fails, this process ends with the same code. */
export function runOrExit(program, args, options = {}) {
  const ended = spawnSync(program, args, { cwd: root, stdio: "inherit", ...options });
  if (ended.error) {
    console.error(`${program} could not be started: ${ended.error.message}`);
    process.exit(1);
  }
  if (ended.status !== 0) process.exit(ended.status ?? 1);
}
