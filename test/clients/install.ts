import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { PublicClient } from "./program.ts";

const here = import.meta.dirname;

export const langgraphCliJs: PublicClient = {
  command: [process.execPath, path.join(here, "node_modules/@langchain/langgraph-cli/dist/cli/cli.mjs")],
  watched: { NODE_OPTIONS: `--import=${path.join(here, "watch-connections.ts")}` },
};

const environmentDir = path.join(here, ".venv");

export const langgraphCliPython: PublicClient = {
  command: [path.join(environmentDir, "bin/langgraph")],
  watched: { PYTHONPATH: path.join(here, "python"), PYTHONDONTWRITEBYTECODE: "1" },
};

/** Installs the packages of package-lock.json unless they are installed. Returns the missing program, or undefined on success. */
export function installNpmPackages(): string | undefined {
  const directory = path.join(here, "node_modules");
  return once(directory, "package-lock.json", () => {
    // `npm ci` refuses a lock file without optional packages, as npm writes it on another platform. `npm install` accepts it.
    const argv = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    return run("npm", argv) ? undefined : "its npm packages could not be installed";
  });
}

/** Installs the packages of requirements.txt into a separate environment unless they are installed. */
export function installPythonPackages(): string | undefined {
  return once(environmentDir, "requirements.txt", () => {
    if (!run("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"])) return "Python 3.11 or newer";
    rmSync(environmentDir, { recursive: true, force: true });
    if (!run("python3", ["-m", "venv", environmentDir])) return "Python's venv (Debian: python3-venv)";
    const argv = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"];
    return run(path.join(environmentDir, "bin/python"), argv)
      ? undefined
      : "its Python packages could not be installed";
  });
}

/** Records beside an installation the list that it was installed from. */
function once(directory: string, list: string, install: () => string | undefined): string | undefined {
  const stamp = path.join(directory, ".pierhead-installed");
  const wanted = createHash("sha256")
    .update(readFileSync(path.join(here, list)))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return undefined;
  const missing = install();
  if (missing === undefined) writeFileSync(stamp, wanted);
  return missing;
}

function run(program: string, argv: string[]): boolean {
  const ended = spawnSync(program, argv, { cwd: here, stdio: ["ignore", 2, 2] });
  return ended.status === 0;
}
