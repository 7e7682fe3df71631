// node scripts/run.mjs [--watch] FILE [ARGS]: runs a file of the project on the Node that the project brings.
import { spawn } from "node:child_process";
import { ensureInstalled, isBuildOld, node, root, runOrExit } from "./ensure.mjs";

const args = process.argv.slice(2);
const watch = args[0] === "--watch" ? args.splice(0, 1) : [];
ensureInstalled();
if (args[0]?.startsWith("dist/") && isBuildOld()) runOrExit(node, ["scripts/build.mjs"]);
const child = spawn(node, [...watch, ...args], { cwd: root, stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(code ?? (signal === null ? 1 : 128)));
