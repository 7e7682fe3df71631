// npm run audit: asks the registry for known vulnerabilities of shipped packages. Fails on a high or critical one.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { root } from "./ensure.mjs";

let failed = false;
for (const directory of [".", "console"]) {
  const args = ["audit", "--omit=dev", "--audit-level=high", "--json"];
  const { stdout, status } = spawnSync("npm", args, { cwd: path.join(root, directory), encoding: "utf8" });
  const { metadata, message } = JSON.parse(stdout || "{}");
  if (metadata === undefined) {
    console.log(`SKIPPED audit of ${directory}: the registry returned no report (${message ?? "no answer"})`);
    continue;
  }
  console.log(`${directory}: ${JSON.stringify(metadata.vulnerabilities)}`);
  failed ||= status !== 0;
}
process.exit(failed ? 1 : 0);
