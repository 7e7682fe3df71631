// npm test [-- FILES]: installs what is missing, checks types and style, builds, runs every test that needs only Node and git.
// Those of test/auth/live/ and test/clients/ need packages of their own, those of test/docker/ a container engine, those
// of test/hosts/ packages and sshd, those of test/kubeplane/ Go: npm run test:auth, test:clients, test:docker, test:hosts,
// test:kubernetes.
import { spawnSync } from "node:child_process";
import { ensureInstalled, node, root, runOrExit } from "./ensure.mjs";

ensureInstalled();
if (process.execPath !== node && !process.versions.node.startsWith("24.")) {
  const again = spawnSync(node, ["scripts/test.mjs", ...process.argv.slice(2)], { cwd: root, stdio: "inherit" });
  process.exit(again.status ?? 1);
}
// Node 20, which may have started this, has no globSync.
const { globSync } = await import("node:fs");
const chosen = process.argv.slice(2);
if (chosen.length === 0) {
  runOrExit(node, ["scripts/check.mjs"]);
  runOrExit(node, ["scripts/build.mjs"]);
}
const files = (chosen.length > 0 ? chosen : ["test/**/*.test.ts"])
  .flatMap((pattern) =>
    globSync(pattern, {
      cwd: root,
      // Packages of a suite that was run before bring tests of their own.
      exclude: ["*/node_modules", "auth/live", "clients", "console", "docker", "hosts", "kubeplane"].map(
        (room) => `test/${room}/**`,
      ),
    }),
  )
  .sort();
const ended = spawnSync(node, ["test/run.ts", ...files], { cwd: root, stdio: "inherit" });
process.exit(ended.status ?? 1);
