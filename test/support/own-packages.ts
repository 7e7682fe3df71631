import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

/** Returns the path of the browser for suites that need one; undefined if none is installed. */
export function findChromium(): string | undefined {
  const directories = (process.env["PATH"] ?? "").split(path.delimiter);
  const names = ["chromium", "chromium-browser", "google-chrome"];
  return names.flatMap((name) => directories.map((directory) => path.join(directory, name))).find(isProgram);
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Installs the packages in a suite's own package-lock.json, unless they are installed.
 * @returns what is missing; undefined if nothing is.
 */
export function installPackages(directory: string): string | undefined {
  const stamp = path.join(directory, "node_modules/.pierhead-installed");
  const wanted = createHash("sha256")
    .update(readFileSync(path.join(directory, "package-lock.json")))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return undefined;
  const argv = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const ended = spawnSync("npm", argv, { cwd: directory, stdio: ["ignore", 2, 2] });
  if (ended.status !== 0) return "its npm packages could not be installed";
  writeFileSync(stamp, wanted);
  return undefined;
}
