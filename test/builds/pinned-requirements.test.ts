import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { readProject } from "../../src/builds/detect/project.ts";
import { findServerRequirements } from "../../src/builds/python/server-requirements.ts";
import type { PythonServer } from "../../src/builds/python/wanted-version.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import { scratch, writeFiles } from "./fixtures.ts";

/** Returns what is installed for a Python server with these requirements. */
async function requirementsOf(dir: string, requirements: string) {
  const sourceDir = path.join(dir, "source");
  await writeFiles(sourceDir, {
    "pierhead.json": JSON.stringify({ start: ["python", "a.py"], python: true }),
    "pyproject.toml": '[project]\nname = "a"\ndependencies = ["haystack-ai>=2.8.0"]\n',
    "requirements.txt": requirements,
  });
  const context = {
    sourceDir,
    cacheDir: path.join(dir, "cache"),
    env: { PATH: "/usr/bin:/bin" },
    log: new BuildLog(() => {}),
    signal: new AbortController().signal,
  };
  const project = await readProject(sourceDir, null, { nodeMajor: 24, target: "directory" });
  return findServerRequirements(context, project as PythonServer, "uv");
}

test("installs the versions that a requirements.txt beside a pyproject.toml names", async () => {
  await using place = await scratch();
  const found = await requirementsOf(
    place.dir,
    "# by hand\nhaystack-ai==2.8.0\nfastapi>=0.115\nuvicorn[standard]==0.34.0\n",
  );
  const constraints = found.argv[found.argv.indexOf("--constraint") + 1] ?? "";
  assert.equal(await readFile(constraints, "utf8"), "haystack-ai==2.8.0\nuvicorn==0.34.0\n");
  assert.match(found.because, /Its versions come from requirements\.txt\./);
  const unlocked = await found.unlocked?.("3.12", []);
  assert.equal(unlocked?.argv.includes("--constraint"), false, "given up when they contradict the project");
});

test("also installs what only the requirements.txt beside a pyproject.toml lists", async () => {
  await using place = await scratch();
  const found = await requirementsOf(place.dir, "Haystack_AI>=2\n-r more.txt\nsqlalchemy==2.0.1\nflask # pages\n");
  const files = found.argv.filter((_, at) => found.argv[at - 1] === "--requirement");
  assert.equal(await readFile(files.at(-1) ?? "", "utf8"), "sqlalchemy==2.0.1\nflask # pages\n");
  const alone = await found.unlocked?.("3.12", []);
  assert.equal(alone?.argv.filter((word) => word === "--requirement").length, 1, "given up when they fit nothing");
});

test("needs no versions of a requirements.txt that names none", async () => {
  await using place = await scratch();
  const found = await requirementsOf(place.dir, "haystack-ai>=2.8.0\n");
  assert.equal(found.argv.includes("--constraint"), false);
});
