import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

/**
 * npm run test:auth: the OAuth service against a certified OpenID provider and an official MCP server, through a real
 * browser; then the attacks on it. What is not there is said, and the suite skipped.
 */
const here = import.meta.dirname;
const chromium = findProgram(["chromium", "chromium-browser", "google-chrome"]);
const missing = chromium === undefined ? "chromium (Debian: apt-get install chromium)" : installPackages();
if (missing !== undefined) console.log(`SKIPPED auth: ${missing}`);
else {
  const live = ["oidc", "mcp", "agent"].map((name) => path.join(here, "live", `${name}.test.ts`));
  const attacks = ["attacks", "tokens", "routes", "providers", "mcp"].map((name) => `test/api/auth-${name}.test.ts`);
  const ended = spawnSync(process.execPath, ["test/run.ts", ...live, ...attacks], {
    stdio: "inherit",
    env: { ...process.env, PIERHEAD_TEST_CHROMIUM: chromium, PIERHEAD_TEST_DATABASE_URL: "none" },
  });
  process.exitCode = ended.status ?? 1;
}

function findProgram(names: string[]): string | undefined {
  const directories = (process.env["PATH"] ?? "").split(path.delimiter);
  const candidates = names.flatMap((name) => directories.map((directory) => path.join(directory, name)));
  return candidates.find(isProgram);
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Installs what package-lock.json names, unless it is there. @returns what is missing; undefined: nothing. */
function installPackages(): string | undefined {
  const stamp = path.join(here, "node_modules/.pierhead-installed");
  const wanted = createHash("sha256")
    .update(readFileSync(path.join(here, "package-lock.json")))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return undefined;
  const argv = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const ended = spawnSync("npm", argv, { cwd: here, stdio: ["ignore", 2, 2] });
  if (ended.status !== 0) return "its npm packages could not be installed";
  writeFileSync(stamp, wanted);
  return undefined;
}
