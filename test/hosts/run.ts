import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

/**
 * npm run test:hosts: tests of code hosts. They use a third-party GitHub simulator made from GitHub's published OpenAPI document,
 * a local GitHub in the shapes of its public reference with real git, a real sshd, and lists of hostile addresses and arguments.
 */
const here = import.meta.dirname;
const missing = installPackages();
if (missing !== undefined) console.log(`SKIPPED hosts: ${missing}`);
else {
  const files = globSync("**/*.test.ts", { cwd: here, exclude: ["node_modules/**"] }).map((file) =>
    path.join(here, file),
  );
  const ended = spawnSync(process.execPath, ["test/run.ts", ...files.sort()], {
    stdio: "inherit",
    env: { ...process.env, PIERHEAD_TEST_DATABASE_URL: "none" },
  });
  process.exitCode = ended.status ?? 1;
}

/** Installs the packages in package-lock.json, unless they are installed. @returns what is missing; undefined if nothing is. */
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
