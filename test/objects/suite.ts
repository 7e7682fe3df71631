import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { buildObjectServer } from "./object-server.ts";

/** `npm run test:objects [-- FILES]`: runs the tests with object storage, whose server is built from its Go modules when needed. */
const built = await buildObjectServer();
if ("missing" in built) console.log(`SKIPPED objects: ${built.missing}`);
else {
  const chosen = process.argv.slice(2);
  const files = chosen.length > 0 ? chosen : globSync("test/objects/*.test.ts").sort();
  const tests = spawn(process.execPath, ["test/run.ts", ...files], { stdio: "inherit" });
  const [exitCode] = await once(tests, "exit");
  process.exitCode = exitCode ?? 1;
}
