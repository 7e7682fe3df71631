import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { partOfCommit } from "../support/commit-part.ts";
import { readPages } from "./pages.ts";
import { nameOfPage, selectedPages, selectedProjects, selectionVariable, uvDirectory } from "./select.ts";
import { type Project, projects } from "./table.ts";

/**
 * npm run test:projects [-- WORDS...]: deploys the projects of table.ts on a real server with process compute and asks each of
 * them over the gateway, and follows the pages of docs/frameworks with the files and commands that they show. Words select the
 * projects and pages whose names contain one of them; the name of a page begins with `page`. Those whose installer is missing are
 * skipped. `--part-of N` runs one of N parts, which the commit chooses, so that all parts are run in turn.
 */
const { values, positionals: words } = parseArgs({
  allowPositionals: true,
  options: { "part-of": { type: "string", default: "1" } },
});
const parts = Number(values["part-of"]);
const part = partOfCommit(parts);
if (parts > 1)
  console.log(`This commit runs part ${part + 1} of ${parts}. Without --part-of, all projects and pages are run.`);
const missing = new Map<Project["needs"][number], string | undefined>([
  ["npm", run("npm", ["view", "@langchain/langgraph", "name"]) ? undefined : "the npm registry cannot be reached"],
  ["pypi", missingPython()],
]);
if (projects.some(({ needs }) => needs.includes("uv"))) missing.set("uv", missing.get("pypi") ?? missingUv());

const pages = readPages().map((page) => ({ name: nameOfPage(page), needs: page.needs }));
const chosen = [...projects, ...pages].filter(({ name, needs }, index) => {
  if (index % parts !== part) return false;
  if (words.length > 0 && !words.some((word) => name.includes(word))) return false;
  const lack = needs.map((need) => missing.get(need)).find((one) => one !== undefined);
  if (lack !== undefined) console.log(`SKIPPED projects: ${name}: ${lack}`);
  return lack === undefined;
});
console.log(
  `Pages of docs/frameworks in this run: ${
    chosen
      .filter((one) => pages.includes(one))
      .map(({ name }) => name.slice("page ".length))
      .join(", ") || "none"
  }.`,
);
process.env[selectionVariable] = chosen.map(({ name }) => name).join("\n");
const files = [
  ...(selectedProjects({ withUv: false }).length > 0 ? ["projects.test.ts"] : []),
  ...(selectedProjects({ withUv: true }).length > 0 ? ["projects-with-uv.test.ts"] : []),
  ...(selectedPages().length > 0 ? ["pages.test.ts"] : []),
].map((file) => path.join(import.meta.dirname, file));
if (files.length === 0) console.log("0 passed, 0 failed");
else {
  const env = { ...process.env, PIERHEAD_TEST_DATABASE_URL: "none" };
  process.exitCode =
    spawnSync(process.execPath, ["test/run.ts", "--timeout-minutes", "35", ...files], { stdio: "inherit", env })
      .status ?? 1;
}

function missingPython(): string | undefined {
  if (!run("python3", ["-c", "import sys, venv; sys.exit(sys.version_info < (3, 11))"])) return "Python 3.11 with venv";
  return run("python3", ["-m", "pip", "index", "versions", "langgraph"]) ? undefined : "PyPI cannot be reached";
}

function missingUv(): string | undefined {
  if (existsSync(path.join(uvDirectory, "bin/uv"))) return undefined;
  const isInstalled =
    run("python3", ["-m", "venv", uvDirectory]) &&
    run(path.join(uvDirectory, "bin/python"), ["-m", "pip", "install", "--quiet", "uv==0.13.9"]);
  return isInstalled ? undefined : "uv could not be installed";
}

function run(program: string, argv: string[]): boolean {
  return spawnSync(program, argv, { stdio: ["ignore", "ignore", 2] }).status === 0;
}
