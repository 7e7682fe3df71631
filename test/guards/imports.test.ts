import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { test } from "node:test";

const { dependencies } = JSON.parse(readFileSync("package.json", "utf8")) as { dependencies: Record<string, string> };

/** Packages of an agent's project, which a file that runs inside of the agent loads. */
const ofProjects = ["@langchain/langgraph"];

/** `import … from "x"`, `export … from "x"`, `import "x"` and `import("x")`, of packages only. */
const imported = /^(?:import|export)\b(?:[^"'`=(;]*?\bfrom)? "([^."][^"]*)";|\bimport\("([^."][^"]*)"\)/gm;

const packageOf = (specifier: string) =>
  specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");

test("every package that src/ imports is a run-time dependency, and every run-time dependency is imported", () => {
  const used = new Map<string, string>();
  for (const name of readdirSync("src", { recursive: true, encoding: "utf8" })) {
    if (!/\.(ts|mts|mjs|js)$/.test(name)) continue;
    for (const [, statically, dynamically] of readFileSync(`src/${name}`, "utf8").matchAll(imported)) {
      const specifier = statically ?? dynamically ?? "";
      if (!isBuiltin(specifier)) used.set(packageOf(specifier), name);
    }
  }
  const missing = [...used].filter(([name]) => !(name in dependencies) && !ofProjects.includes(name));
  assert.deepEqual(missing, [], "packages that no user gets");
  assert.deepEqual(
    Object.keys(dependencies).filter((name) => !used.has(name)),
    [],
    "packages that no file uses",
  );
});
