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
async function requirementsOf(dir: string, requirements: string | null, files: Record<string, string> = {}) {
  const sourceDir = path.join(dir, "source");
  await writeFiles(sourceDir, {
    "pierhead.json": JSON.stringify({ start: ["python", "a.py"], python: true }),
    "pyproject.toml": '[project]\nname = "a"\ndependencies = ["haystack-ai>=2.8.0"]\n',
    ...(requirements === null ? {} : { "requirements.txt": requirements }),
    ...files,
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

/** Returns the lines of the file that an option of an installer names last. */
async function linesOf({ argv }: { argv: string[] }, option: string): Promise<string[]> {
  const file = argv[argv.lastIndexOf(option) + 1] ?? "";
  return (await readFile(file, "utf8")).trimEnd().split("\n");
}

test("keeps the markers of versions for other systems, and gives the versions up after any failure", async () => {
  await using place = await scratch();
  const lines = ['haystack-ai==2.8.0 ; python_version < "3.9"', 'haystack-ai==2.9.0; python_version >= "3.9"'];
  const found = await requirementsOf(place.dir, `${lines.join(" # old\n")}\n`);
  assert.deepEqual(await linesOf(found, "--constraint"), lines);
  assert.equal(found.mayBeOutdated, true);
});

test("takes packages that only requirements.txt lists from the indexes that it names", async () => {
  await using place = await scratch();
  const index = "--extra-index-url https://packages.example/simple";
  const found = await requirementsOf(place.dir, `${index}\nhaystack-ai\nours\n`);
  assert.deepEqual(await linesOf(found, "--requirement"), [index, "ours"]);
});

test("shares no environment with a package of an address that only requirements.txt lists", async () => {
  await using place = await scratch();
  const found = await requirementsOf(place.dir, "ours @ git+https://git.example/ours\n");
  assert.equal(found.isShareable, false);
});

test("keeps the versions of a lock file when it gives up what only requirements.txt lists", async () => {
  await using place = await scratch();
  const lock = '[[package]]\nname = "haystack-ai"\nversion = "2.8.1"\n';
  const found = await requirementsOf(place.dir, "flask\n", { "poetry.lock": lock });
  const locked = await found.unlocked?.("3.12", []);
  assert.deepEqual(await linesOf(locked ?? found, "--constraint"), ["haystack-ai==2.8.1"]);
  assert.deepEqual(await linesOf(locked ?? found, "--requirement"), ["haystack-ai>=2.8.0"]);
  assert.equal((await locked?.unlocked?.("3.12", []))?.argv.includes("--constraint"), false);
});

test("adds nothing to a uv.lock, to a file that pierhead.json names, or to what setuptools reads", async () => {
  const setup = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\n',
    "setup.cfg": "[options]\ninstall_requires =\n  flask>=3\n",
  };
  const named = { start: ["python", "a.py"], python: { requirements: "pyproject.toml" } };
  for (const files of [{ "uv.lock": "version = 1\n" }, setup, { "pierhead.json": JSON.stringify(named) }]) {
    await using place = await scratch();
    const { argv } = await requirementsOf(place.dir, "flask==3.0.0\n", files);
    assert.equal(
      argv.some((word) => word.endsWith("also-requirements.txt")),
      false,
      Object.keys(files).join(),
    );
  }
});

test("needs no versions of a requirements.txt that names none", async () => {
  await using place = await scratch();
  const found = await requirementsOf(place.dir, "haystack-ai>=2.8.0\n");
  assert.equal(found.argv.includes("--constraint"), false);
});

test("also installs what only an environment.yml, or a table of pixi, beside a pyproject.toml lists", async () => {
  const environment =
    "dependencies:\n  - python=3.12\n  - numpy=1.26\n  - haystack-ai\n  - pip:\n      - fastapi==0.121.3\n";
  const project = '[project]\nname = "a"\ndependencies = ["haystack-ai>=2.8.0"]\n';
  const pixi = `${project}[tool.pixi.dependencies]\nnumpy = "1.26.*"\n[tool.pixi.pypi-dependencies]\nfastapi = "==0.121.3"\n`;
  for (const files of [{ "environment.yml": environment }, { "pyproject.toml": pixi }]) {
    await using place = await scratch();
    const found = await requirementsOf(place.dir, "haystack-ai\n", files);
    assert.deepEqual(await linesOf(found, "--requirement"), ["fastapi==0.121.3", "numpy==1.26.*"]);
    const alone = await found.unlocked?.("3.12", []);
    assert.equal(alone?.argv.filter((word) => word === "--requirement").length, 1, "given up when they fit nothing");
  }
});

test("installs packages of conda from PyPI, in any version if it lacks theirs, and names those that it lacks", async () => {
  await using place = await scratch();
  const found = await requirementsOf(place.dir, null, {
    "pyproject.toml": "[tool.ruff]\n",
    "environment.yml": "dependencies:\n  - numpy=1.26\n  - cmdstan\n  - openssl\n  - pip:\n      - flask==3.0.0\n",
  });
  assert.deepEqual(await linesOf(found, "--requirement"), ["flask==3.0.0", "numpy==1.26.*", "cmdstan"]);
  const other = await found.unlocked?.("3.12", []);
  assert.deepEqual(await linesOf(other ?? found, "--requirement"), ["flask==3.0.0", "numpy", "cmdstan"]);
  for (const line of [
    "cause: Because cmdstan was not found in the package registry and you require cmdstan",
    "ERROR: No matching distribution found for cmdstan",
  ])
    assert.match(other?.explain?.([line])?.message ?? "", /PyPI does not have: cmdstan\. /);
  assert.equal(other?.explain?.(["ERROR: No matching distribution found for flask==3.0.0"]), null);
});

test("takes the packages of an environment.yml from the index that it names", async () => {
  await using place = await scratch();
  const index = "--extra-index-url https://pypi.example/simple";
  const environment = `dependencies:\n  - pip:\n      - ${index}\n      - ours\n`;
  const found = await requirementsOf(place.dir, null, { "environment.yml": environment });
  assert.deepEqual(await linesOf(found, "--requirement"), [index, "ours"]);
});

test("leaves to setuptools what a requirements.txt lists that it reads, also if an environment.yml lists it", async () => {
  await using place = await scratch();
  const found = await requirementsOf(place.dir, "numpy>=2\n", {
    "pyproject.toml": '[project]\nname = "a"\ndynamic = ["dependencies"]\n[build-system]\nrequires = ["setuptools"]\n',
    "environment.yml": "dependencies: [numpy=1.21, rich]\n",
  });
  assert.deepEqual(await linesOf(found, "--requirement"), ["rich"]);
});

test("refuses packages of a private channel, and leaves them out beside other requirements", async () => {
  const environment = "channels: [https://conda.example/acme]\ndependencies: [ours, conda-forge::rich]\n";
  await using place = await scratch();
  const alone = { "pyproject.toml": "[tool.ruff]\n", "environment.yml": environment };
  await assert.rejects(requirementsOf(place.dir, null, alone), /channel Pierhead does not know to be public: ours\. /);
  await using other = await scratch();
  const found = await requirementsOf(other.dir, null, { "environment.yml": environment });
  assert.deepEqual(await linesOf(found, "--requirement"), ["rich"]);
});

test("explains a failure at once, also after a long line of the log", { timeout: 60_000 }, async () => {
  await using place = await scratch();
  const found = await requirementsOf(place.dir, null, {
    "pyproject.toml": "[tool.ruff]\n",
    "environment.yml": "dependencies: [numpy]\n",
  });
  const lines = Array.from({ length: 100 }, () => "a".repeat(64 * 1024));
  assert.match(found.explain?.([...lines, "numpy was not found in the registry"])?.message ?? "", /have: numpy\./);
});
