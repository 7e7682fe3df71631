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

test("prefers the version in the image of a Dockerfile when no other file names one", async () => {
  const images = [
    "python:3.12-slim",
    "--platform=linux/amd64 docker.io/library/python:3.12.4 AS build",
    "ghcr.io/astral-sh/uv:python3.12-bookworm-slim",
    "ghcr.io/astral-sh/uv:0.5.1-python3.12-alpine",
  ];
  for (const image of images) {
    const { version, from, isPreference } = await wanted({ Dockerfile: `# syntax=x\nFROM ${image}\nRUN x\n` });
    assert.deepEqual([version, from, isPreference], ["3.12", "Dockerfile", true], image);
  }
  assert.equal((await wanted({ Dockerfile: "FROM python:3.12\n", ".python-version": "3.13\n" })).version, "3.13");
  for (const other of ["python:3.8", "python:3-slim", "node:22", "acme/my-python:3.12"])
    assert.equal((await wanted({ Dockerfile: `FROM ${other}\n` })).version, null, other);
});

test("answers about a pyproject.toml that is made to be slow, and skips one that is too large", async () => {
  const size = 255 * 1024;
  for (const text of ["\n".repeat(size), " ".repeat(size), `requires-python="${"<".repeat(size)}"`])
    assert.deepEqual((await wanted({ "pyproject.toml": `[project]\n${text}` })).ranges, []);
  const large = `[project]\nrequires-python = ">=3.11"\n${"#".repeat(300 * 1024)}`;
  assert.deepEqual((await wanted({ "pyproject.toml": large })).ranges, []);
});
