import { spawnSync } from "node:child_process";
import path from "node:path";
import { installNpmPackages, installPythonPackages } from "./install.ts";

/** npm run test:clients: public clients, unmodified, and our own for Python, against a running server. Clients that cannot be installed are skipped. */
const missingPython = installPythonPackages();
const missingNpm = installNpmPackages();
const clients = [
  { file: "langgraph-cli-js.test.ts", missing: missingNpm },
  { file: "terraform.test.ts", missing: missingNpm },
  { file: "langgraph-cli-python.test.ts", missing: missingPython },
  { file: "langchain-auth.test.ts", missing: missingPython },
  { file: "pierhead-python.test.ts", missing: missingPython },
];
for (const { file, missing } of clients) if (missing !== undefined) console.log(`SKIPPED clients: ${file}: ${missing}`);
const files = clients
  .filter(({ missing }) => missing === undefined)
  .map(({ file }) => path.join(import.meta.dirname, file));
if (files.length > 0) {
  const ended = spawnSync(process.execPath, ["test/run.ts", ...files], {
    stdio: "inherit",
    env: { ...process.env, PIERHEAD_TEST_DATABASE_URL: "none" },
  });
  process.exitCode = ended.status ?? 1;
}
