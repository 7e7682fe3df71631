import { spawnSync } from "node:child_process";
import path from "node:path";
import { findChromium, installPackages } from "../support/own-packages.ts";

/**
 * npm run test:auth: the OAuth service against a certified OpenID provider and an official MCP server in a real browser, the
 * sign-in of members to the console, and then attacks on it. If a program is missing, the suite reports it and is skipped.
 */
const here = import.meta.dirname;
const chromium = findChromium();
const missing = chromium === undefined ? "chromium (Debian: apt-get install chromium)" : installPackages(here);
if (missing !== undefined) console.log(`SKIPPED auth: ${missing}`);
else {
  const built = spawnSync(process.execPath, ["console/build.mjs", "dist/console"], { stdio: "inherit" });
  if (built.status !== 0) process.exit(built.status ?? 1);
  const live = ["oidc", "mcp", "agent", "sign-in"].map((name) => path.join(here, "live", `${name}.test.ts`));
  const attacks = ["attacks", "tokens", "routes", "providers", "mcp"].map((name) => `test/api/auth-${name}.test.ts`);
  const ended = spawnSync(process.execPath, ["test/run.ts", ...live, ...attacks], {
    stdio: "inherit",
    env: { ...process.env, PIERHEAD_TEST_CHROMIUM: chromium, PIERHEAD_TEST_DATABASE_URL: "none" },
  });
  process.exitCode = ended.status ?? 1;
}
