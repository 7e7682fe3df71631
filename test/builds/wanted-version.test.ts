import assert from "node:assert/strict";
import { test } from "node:test";
import type { PythonServer } from "../../src/builds/python/wanted-version.ts";
import { wantedPython } from "../../src/builds/python/wanted-version.ts";
import { type Files, scratch, writeFiles } from "./fixtures.ts";

const project = {
  directory: ".",
  kind: "command",
  configPath: "pierhead.json",
  python: { version: null },
} as PythonServer;

async function wanted(files: Files) {
  await using place = await scratch();
  await writeFiles(place.dir, files);
  return await wantedPython({ sourceDir: place.dir, log: { say: () => {} } }, project);
}

test("reads the range of a pyproject.toml", async () => {
  const { ranges } = await wanted({ "pyproject.toml": '[project]\n  requires-python = ">=3.11"\n' });
  assert.deepEqual(ranges, [{ range: ">=3.11", from: "pyproject.toml" }]);
});

test("prefers the version that a Pipfile requires, unless .python-version names another", async () => {
  const pipfile = { Pipfile: '[packages]\nfastapi = "*"\n[requires]\npython_version = "3.12"\n' };
  const { version, from, isPreference } = await wanted(pipfile);
  assert.deepEqual([version, from, isPreference], ["3.12", "Pipfile", true]);
  assert.equal((await wanted({ ...pipfile, ".python-version": "3.13\n" })).version, "3.13");
  assert.equal((await wanted({ Pipfile: '[requires]\npython_version = "3.8"\n' })).version, null);
});

test("answers about a pyproject.toml that is made to be slow, and skips one that is too large", async () => {
  const size = 255 * 1024;
  for (const text of ["\n".repeat(size), " ".repeat(size), `requires-python="${"<".repeat(size)}"`])
    assert.deepEqual((await wanted({ "pyproject.toml": `[project]\n${text}` })).ranges, []);
  const large = `[project]\nrequires-python = ">=3.11"\n${"#".repeat(300 * 1024)}`;
  assert.deepEqual((await wanted({ "pyproject.toml": large })).ranges, []);
});
