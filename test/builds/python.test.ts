import assert from "node:assert/strict";
import { chmod, mkdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import type { PythonProject } from "../../src/builds/detect/langgraph-config.ts";
import { readProject } from "../../src/builds/detect/project.ts";
import { BuildFailure } from "../../src/builds/failure.ts";
import { pipArguments } from "../../src/builds/python/conda.ts";
import { gitVersionVariables } from "../../src/builds/python/git-version.ts";
import { findPython, withFittingPython } from "../../src/builds/python/interpreter.ts";
import { keepLocalPackages, layOutLocalPackages } from "../../src/builds/python/local-packages.ts";
import { findLock, lockConstraints, pipfileLockRequirements } from "../../src/builds/python/locked-versions.ts";
import { collectRequirements } from "../../src/builds/python/requirements.ts";
import { uvSettings } from "../../src/builds/python/uv.ts";
import { type PythonServer, wantedPython } from "../../src/builds/python/wanted-version.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import { buildEnvironment } from "../../src/builds/worker/environment.ts";
import type { BuildContext } from "../../src/builds/worker/run-command.ts";
import { type Files, scratch, writeFiles } from "./fixtures.ts";

function contextOf(dir: string, searchPath = ""): BuildContext {
  const log = new BuildLog(() => {});
  const sourceDir = path.join(dir, "source");
  return { sourceDir, cacheDir: dir, env: { PATH: searchPath }, log, signal: new AbortController().signal };
}

/** Creates programs that behave like Python of these versions; null: a version manager's name for a version that is not installed. */
async function pythons(dir: string, versions: Record<string, string | null>, hasVenv = true): Promise<string> {
  const bin = path.join(dir, "bin");
  await rm(bin, { recursive: true, force: true });
  await mkdir(bin);
  for (const [name, version] of Object.entries(versions)) {
    const numbers = version?.split(".").join(", ");
    const answer = version === null ? "exit 127" : `echo '[[${numbers}], "${bin}/${name}", ${hasVenv}]'`;
    await writeFiles(bin, { [name]: `#!/bin/sh\n${answer}\n` });
    await chmod(path.join(bin, name), 0o755);
  }
  return bin;
}

/** What a project with only this `python_version` says. */
const named = (version: string | null) => ({ version, from: "python_version", isPreference: false, ranges: [] });

test("selects the requested Python, otherwise python3, otherwise any that is new enough", async () => {
  await using place = await scratch();
  const find = async (versions: Record<string, string | null>, wanted: string | null, hasVenv = true) => {
    const bin = await pythons(place.dir, versions, hasVenv);
    return (await findPython(contextOf(place.dir, `${bin}:/usr/bin:/bin`), named(wanted), null)).version;
  };
  assert.equal(await find({ python3: "3.11.2", "python3.12": "3.12.1" }, null), "3.11.2");
  assert.equal(await find({ python3: "3.9.2", "python3.12": "3.12.1", "python3.13": null }, null), "3.12.1");
  assert.equal(await find({ python3: "3.11.2", "python3.12": "3.12.1" }, "3.12"), "3.12.1");
  assert.equal(await find({ python3: "3.14.0" }, "3.14"), "3.14.0");
});

test("reports the Python versions found and what to install when the required one is missing", async () => {
  await using place = await scratch();
  const refusal = async (versions: Record<string, string | null>, wanted: string | null, hasVenv = true) => {
    const bin = await pythons(place.dir, versions, hasVenv);
    const failure = await findPython(contextOf(place.dir, bin), named(wanted), null).catch(
      (error: BuildFailure) => error,
    );
    assert.ok("reason" in failure && failure.reason === "ToolchainFailed");
    return failure.message.replaceAll(bin, "/bin");
  };
  const shell = { sh: null };
  assert.equal(
    await refusal({ ...shell }, null),
    "The agent needs Python 3.11 or newer, but this server has no Python. Install it, or install uv, which downloads it.",
  );
  assert.equal(
    await refusal({ python3: "3.9.2", python: "3.9.2" }, "3.12"),
    "The agent needs Python 3.12 (python_version), but this server has Python 3.9.2 at /bin/python3, Python 3.9.2 at /bin/python. Install it, or install uv, which downloads it, or change the requirement.",
  );
  assert.match(
    await refusal({ python3: "3.11.2" }, null, false),
    /3\.11\.2 at \S+ without venv \(Debian: install python3-venv\)/,
  );
});

test("lets uv download a missing Python", async () => {
  await using place = await scratch();
  assert.equal((await findPython(contextOf(place.dir), named("3.13"), "/bin/true")).python, "3.13");
  assert.equal((await findPython(contextOf(place.dir), named(null), "/bin/true")).python, ">=3.11");
  await assert.rejects(findPython(contextOf(place.dir), named("3.99"), "/bin/false"), {
    reason: "ToolchainFailed",
    message: /^The agent needs Python 3\.99 \(python_version\).* uv finds no such Python to download\./,
  });
});

test("installs once more with the Python that the packages need", async () => {
  await using place = await scratch();
  const bin = await pythons(place.dir, { python3: "3.11.7", "python3.13": "3.13.0" });
  const lines: string[] = [];
  const log = new BuildLog((line) => lines.push(line.message));
  const context = { ...contextOf(place.dir, bin), log };
  const wanted = { ...named(null), from: "" };
  for (const said of [
    "ERROR: Ignored the following versions that require a different python version: 6.0 Requires-Python >=3.12; 6.0.1",
    "  × No solution found: Because the current Python version (3.11.7) does not satisfy Python>=3.12 and django>=6.0",
  ]) {
    const used = await withFittingPython(context, { wanted, uv: null }, async ({ version }) => {
      log.output("stderr", version === "3.11.7" ? said : "installed");
      if (version === "3.11.7") throw new BuildFailure("InstallFailed", "pip failed");
      return version;
    });
    assert.equal(used, "3.13.0");
  }
  assert.match(lines.join("\n"), /The packages need Python >=3\.12: using Python 3\.13\.0 instead of 3\.11\.7\./);
});

test("converts the package indexes of pip to those of uv", () => {
  const listed = [
    "global.index-url='https://file.example/simple'",
    ":env:.index-url='https://packages.example/simple'",
    "global.extra-index-url='\\nhttps://a.example/simple\\nhttps://b.example/simple'",
    "global.timeout='60'",
  ];
  assert.deepEqual(uvSettings(listed.join("\n")), {
    UV_DEFAULT_INDEX: "https://packages.example/simple",
    UV_INDEX: "https://a.example/simple https://b.example/simple",
    UV_INDEX_STRATEGY: "unsafe-best-match",
  });
});

const host = { nodeMajor: 24, target: "directory" } as const;

/** Returns the Python that is chosen for a project with these files. */
async function pythonFor(
  files: Files,
  versions: Record<string, string | null>,
  uv: string | null = null,
  project: Files = { "a.py": "", "langgraph.json": langgraph(["."]) },
) {
  await using place = await scratch();
  const bin = await pythons(place.dir, versions);
  const lines: string[] = [];
  const log = new BuildLog((line) => lines.push(line.message));
  const context = { ...contextOf(place.dir, `${bin}:/usr/bin:/bin`), log };
  await writeFiles(context.sourceDir, { ...project, ...files });
  const read = (await readProject(context.sourceDir, null, host)) as PythonProject | PythonServer;
  const wanted = await wantedPython(context, read);
  return { ...(await findPython(context, wanted, uv)), log: lines.join("\n") };
}

const requires = (range: string) => ({ "pyproject.toml": `[project]\nname = "a"\nrequires-python = "${range}"\n` });

test("selects a Python that requires-python allows", async () => {
  const versions = { python3: "3.13.1", "python3.12": "3.12.4", "python3.11": "3.11.9" };
  assert.equal((await pythonFor(requires(">=3.11,<3.13"), versions)).version, "3.12.4");
  assert.equal((await pythonFor(requires("~=3.11.2"), versions)).version, "3.11.9");
  assert.equal((await pythonFor(requires("==3.12.*"), versions)).version, "3.12.4");
  assert.equal((await pythonFor(requires(">=3.11,!=3.13.*"), versions)).version, "3.12.4");
  assert.equal((await pythonFor(requires(">=3.9"), versions)).version, "3.13.1");
  const contrary = {
    "langgraph.json": JSON.stringify({ graphs: { a: "./a.py:g" }, dependencies: ["."], python_version: "3.11" }),
  };
  const corrected = await pythonFor({ ...requires(">=3.12"), ...contrary }, versions);
  assert.equal(corrected.version, "3.12.4");
  assert.match(corrected.log, /python_version names Python 3\.11, but pyproject\.toml requires >=3\.12/);
  const poetry = { "pyproject.toml": '[tool.poetry.dependencies]\npython = "~3.11"\n' };
  assert.equal((await pythonFor(poetry, versions)).version, "3.11.9");
  assert.equal((await pythonFor(requires(">=3.15,<3.17"), versions, "/bin/true")).python, ">=3.11,>=3.15,<3.17");
  await assert.rejects(pythonFor(requires(">=3.15"), versions), {
    reason: "ToolchainFailed",
    message:
      /The agent needs Python 3\.11 or newer and >=3\.15 \(requires-python in pyproject\.toml\), but this server has/,
  });
});

test("selects the Python of .python-version, or another one if this server does not have it", async () => {
  const versions = { python3: "3.13.1", "python3.12": "3.12.4" };
  assert.equal((await pythonFor({ ".python-version": "3.12\n" }, versions)).version, "3.12.4");
  assert.equal((await pythonFor({ ".python-version": "cpython-3.12.1\n" }, versions)).version, "3.12.4");
  const other = await pythonFor({ ".python-version": "3.14\n" }, versions);
  assert.equal(other.version, "3.13.1");
  assert.match(
    other.log,
    /\.python-version names Python 3\.14, which this server does not have: using Python 3\.13\.1/,
  );
  const [uvThatDownloads, uvThatFails] = ["/bin/true", "/bin/false"];
  assert.equal((await pythonFor({ ".python-version": "3.14\n" }, versions, uvThatDownloads)).python, "3.14");
  assert.equal((await pythonFor({ ".python-version": "3.14\n" }, versions, uvThatFails)).version, "3.13.1");
  // An old Dockerfile must not lead to a Python that the packages refuse.
  const stale = { Dockerfile: "FROM python:3.11-slim\n", ...requires(">=3.12") };
  const found = await pythonFor(stale, { python3: "3.13.1" }, uvThatDownloads);
  assert.equal(found.version, "3.13.1");
  assert.match(found.log, /Dockerfile names Python 3\.11, which pyproject\.toml does not allow/);
  const old = await pythonFor({ ".python-version": "3.10\n" }, versions);
  assert.match(old.log, /names Python 3\.10, but the agent server needs Python 3\.11 or newer/);
});

test("selects the Python of a server without a LangGraph agent by the same files", async () => {
  const versions = { python3: "3.13.1", "python3.12": "3.12.4" };
  const recognized = { "main.py": "app = FastAPI()\n", "requirements.txt": "fastapi\n" };
  const chosen = async (files: Files) => (await pythonFor(files, versions, null, recognized)).version;
  assert.equal(await chosen(requires(">=3.11,<3.13")), "3.12.4");
  assert.equal(await chosen({ ".python-version": "3.12\n" }), "3.12.4");
  assert.equal(await chosen({ ".python-version": "3.14\n" }), "3.13.1");
  assert.equal(await chosen({ "runtime.txt": "python-3.12.1\n" }), "3.12.4");
  const configured = {
    "server.py": "",
    "pierhead.json": JSON.stringify({ start: ["python", "server.py"], python: "3.14" }),
  };
  await assert.rejects(pythonFor({}, versions, null, configured), {
    reason: "ToolchainFailed",
    message: /The agent needs Python 3\.14 \(python in pierhead\.json\)/,
  });
});

test("blames the engine when no Python of the machine runs it, and names the other one", async () => {
  await using place = await scratch();
  const bin = await pythons(place.dir, { python3: "3.11.1" });
  const log = new BuildLog(() => undefined);
  const context = { ...contextOf(place.dir, `${bin}:/usr/bin:/bin`), log };
  const wanted = {
    version: null,
    from: "",
    isPreference: false,
    ranges: [{ range: ">=3.12", from: 'engine "aegra"' }],
  };
  await assert.rejects(findPython(context, wanted, null), {
    reason: "EngineUnavailable",
    message: /needs Python 3\.11 or newer and >=3\.12 \(engine "aegra"\).*, or choose engine "memory"\.$/,
  });
});

test("rejects a project whose requires-python excludes every Python of the agent server", async () => {
  await assert.rejects(pythonFor(requires(">=3.9,<3.11"), { python3: "3.11.1" }), {
    reason: "Unsupported",
    message:
      "pyproject.toml requires Python >=3.9,<3.11, but the agent server needs Python 3.11 or newer. Change requires-python and deploy again.",
  });
});

test("finds a Python behind a version manager's name for one that is not installed, and where pyenv installs them", async () => {
  await using place = await scratch();
  const shims = await pythons(place.dir, { python3: "3.9.2", "python3.12": null });
  const home = path.join(place.dir, "home");
  const bin = path.join(home, ".pyenv/versions/3.12.8/bin");
  await writeFiles(bin, { "python3.12": `#!/bin/sh\necho '[[3, 12, 8], "${bin}/python3.12", true]'\n` });
  await chmod(path.join(bin, "python3.12"), 0o755);
  const build = { buildId: "b", workerPid: 1, homeDir: "/h", tempDir: "/t", cacheDir: "/c", nodePath: "/n/node" };
  const env = buildEnvironment({ HOME: home, PATH: `${shims}:/usr/bin:/bin` }, build);
  const found = await findPython({ ...contextOf(place.dir), env }, named("3.12"), null);
  assert.equal(found.python, path.join(bin, "python3.12"));
});

test("keeps the Pythons that uv downloads away from the directory of toolchains, which uv would take for its own", () => {
  const build = { buildId: "b", workerPid: 1, homeDir: "/h", tempDir: "/t", cacheDir: "/c", nodePath: "/n/node" };
  const directory = buildEnvironment({}, build)["UV_PYTHON_INSTALL_DIR"] ?? "";
  assert.notEqual(path.join(path.dirname(directory), "toolchains"), "/c/toolchains");
});

test("finds the uv.lock beside a package or at the root of its workspace", async () => {
  const files = { "pyproject.toml": "", "uv.lock": "version = 1" };
  assert.equal((await requirements({ "langgraph.json": langgraph(["."]), ...files })).lock, "uv.lock");
  const member = { "langgraph.json": langgraph(["./apps/agent"]), "apps/agent/pyproject.toml": "", ...files };
  assert.equal((await requirements(member)).lock, "uv.lock");
  assert.equal((await requirements({ "langgraph.json": langgraph(["."]), "uv.lock": "", "a.py": "" })).lock, null);
});

const langgraph = (dependencies: string[]) => JSON.stringify({ graphs: { a: "./a.py:graph" }, dependencies });

async function requirements(files: Files) {
  await using place = await scratch();
  const context = contextOf(place.dir);
  await writeFiles(context.sourceDir, { "a.py": "", ...files });
  return await collectRequirements(
    context,
    (await readProject(context.sourceDir, null, { nodeMajor: 24, target: "directory" })) as PythonProject,
  );
}

test("installs packages as editable, other directories by their requirements, and the rest by name", async () => {
  const found = await requirements({
    "langgraph.json": langgraph([".", "./tools", "./plain", "httpx>=0.28"]),
    "pyproject.toml": "",
    "tools/requirements.txt": "requests",
    "plain/module.py": "",
  });
  assert.deepEqual(found.argv, ["httpx>=0.28", "--editable", ".", "--requirement", "./tools/requirements.txt"]);
  await assert.rejects(requirements({ "langgraph.json": langgraph(["./none"]) }), {
    reason: "ConfigInvalid",
    message: "langgraph.json: dependencies names 'none', which is not a directory of the source.",
  });
});

test("installs the packages beside the configuration when the directories in dependencies describe none", async () => {
  const files = { "langgraph.json": langgraph(["./src"]), "src/a.py": "", "pyproject.toml": "", "uv.lock": "" };
  const found = await requirements(files);
  assert.deepEqual([found.argv, found.lock], [["--dependencies-of", "./pyproject.toml"], "uv.lock"]);
  assert.deepEqual((await requirements({ ...files, "src/requirements.txt": "httpx" })).argv, [
    "--requirement",
    "./src/requirements.txt",
  ]);
});

test("requires a new environment for changed dependencies or moved packages, but not for changed code", async () => {
  const base = {
    "langgraph.json": langgraph(["."]),
    "pyproject.toml": '[project]\nname = "a"\ndependencies = ["requests"]\n',
    "src/a/__init__.py": "one = 1",
  };
  const identity = async (changes: Files) => JSON.stringify((await requirements({ ...base, ...changes })).identity);
  const before = await identity({});
  assert.equal(await identity({ "src/a/__init__.py": "one = 2", "src/a/more.py": "", "README.md": "read" }), before);
  for (const changes of [
    { "pyproject.toml": '[project]\nname = "a"\ndependencies = ["requests", "httpx"]\n' },
    { "langgraph.json": langgraph([".", "httpx"]) },
    { "src/b/__init__.py": "" },
    { "b.py": "" },
    { "constraints.txt": "requests<3" },
  ] as Files[]) {
    assert.notEqual(await identity(changes), before, JSON.stringify(changes));
  }
});

test("shares an environment only when its described inputs decide its contents", async () => {
  const isShareable = async (files: Files) => (await requirements(files)).isShareable;
  const config = { "langgraph.json": langgraph(["."]) };
  assert.equal(await isShareable({ ...config, "requirements.txt": "requests>=2\nhttpx[http2]\n# a comment\n" }), true);
  assert.equal(
    await isShareable({ ...config, "pyproject.toml": '[build-system]\nbuild-backend = "hatchling.build"' }),
    true,
  );
  for (const files of [
    { "requirements.txt": "-r more.txt" },
    { "requirements.txt": "./wheels/x.whl" },
    { "requirements.txt": "x @ git+https://example.invalid/x" },
    { "pyproject.toml": '[build-system]\nbuild-backend = "own_backend"' },
    { "pyproject.toml": '[tool.uv.sources]\nx = { path = "../x" }' },
    { "pyproject.toml": '[project]\ndependencies = ["x @ https://example.invalid/x.whl"]' },
    { "pyproject.toml": "", "setup.py": "" },
  ] as Files[]) {
    assert.equal(await isShareable({ ...config, ...files }), false, JSON.stringify(files));
  }
});

test("moves editable packages out of the environment and into each artifact with its paths", async () => {
  await using place = await scratch();
  const { sourceDir } = contextOf(place.dir);
  await mkdir(sourceDir);
  const environment = path.join(place.dir, "environment");
  const packages = "lib/python3.12/site-packages";
  await writeFiles(environment, {
    [`${packages}/__editable__.a-1.0.pth`]: `${sourceDir}/src\n`,
    [`${packages}/a-1.0.dist-info/direct_url.json`]: `{"dir_info": {"editable": true}, "url": "file://${sourceDir}"}`,
    [`${packages}/a-1.0.dist-info/METADATA`]: "Name: a\nVersion: 1.0\n\nOf this source only.\n",
    [`${packages}/a-1.0.dist-info/RECORD`]:
      '../../../bin/a,,\n__editable__.a-1.0.pth,sha256=x,9\na-1.0.dist-info/METADATA,,\na-1.0.dist-info/RECORD,,\n"a-1.0.dist-info/direct_url.json",,\n__pycache__/gone.pyc,,\n',
    [`${packages}/requests-2.0.dist-info/RECORD`]: "requests/__init__.py,,\n",
    [`${packages}/requests/__init__.py`]: "",
    "bin/a": "",
    "bin/python": "",
  });
  await keepLocalPackages(environment, sourceDir);
  const read = (name: string) => readFile(path.join(environment, name), "utf8").catch(() => null);
  assert.deepEqual(
    [await read("bin/a"), await read("bin/python"), await read(`${packages}/__editable__.a-1.0.pth`)],
    [null, "", null],
  );
  assert.equal(await read(`${packages}/requests/__init__.py`), "");
  for (const target of ["/artifacts/one", "/artifacts/two"]) {
    await layOutLocalPackages(environment, sourceDir, target);
    const laidOut = (name: string) => readFile(path.join(sourceDir, ".pierhead-python", name), "utf8");
    assert.equal(await laidOut("__editable__.a-1.0.pth"), `${target}/src\n`);
    assert.match(await laidOut("a-1.0.dist-info/direct_url.json"), new RegExp(`file://${target}"`));
    assert.equal(await laidOut("a-1.0.dist-info/METADATA"), "Name: a\nVersion: 1.0");
  }
});

test("uses the versions of a poetry.lock, a compiled requirements.txt and a Pipfile.lock", async () => {
  await using place = await scratch();
  const lockOf = async (files: Files) => {
    await rm(place.dir, { recursive: true, force: true });
    await writeFiles(place.dir, files);
    return findLock(place.dir, "apps/a");
  };
  assert.equal(await lockOf({ "apps/a/poetry.lock": "", "uv.lock": "" }), "apps/a/poetry.lock");
  assert.equal(await lockOf({ "apps/a/requirements.txt": "httpx==1.0\n", "uv.lock": "" }), "uv.lock");
  const compiled = "# This file was autogenerated by uv via the following command:\nhttpx==1.0\n";
  assert.equal(await lockOf({ "apps/a/requirements.txt": compiled }), "apps/a/requirements.txt");
  const poetry = `
[[package]]
name = "httpx"
version = "0.28.1"
files = [{ file = "x" }]

[package.dependencies]
anyio = "*"

[[package]]
name = "own"
version = "1.0"

[package.source]
type = "git"

[[package]]
name = "numpy"
version = "1.26"

[[package]]
name = "numpy"
version = "2.0"
`;
  assert.deepEqual(lockConstraints(poetry), ["httpx==0.28.1"]);
  const [uv, pdm] = ['source = { git = "https://host.example/own.git" }', 'git = "https://host.example/own.git"'];
  for (const elsewhere of [uv, pdm]) {
    const lock = `[[package]]\nname = "own"\nversion = "1.0"\n${elsewhere}\n\n[[package]]\nname = "fastapi"\nversion = "0.121.3"\nsource = { registry = "https://packages.invalid/simple" }\n`;
    assert.deepEqual(lockConstraints(lock), ["fastapi==0.121.3"]);
  }
  const pipfile = {
    default: {
      flask: { version: "==3.0.0", extras: ["async"], markers: "python_version >= '3.8'" },
      own: { git: "https://host.example/own.git", ref: "abc" },
    },
    develop: { pytest: { version: "==8" } },
  };
  assert.deepEqual(pipfileLockRequirements(JSON.stringify(pipfile)), [
    "flask[async]==3.0.0 ; python_version >= '3.8'",
    "own @ git+https://host.example/own.git@abc",
  ]);
});

test("gives a package a version when its own comes from git tags", async () => {
  await using place = await scratch();
  const context = contextOf(place.dir);
  await writeFiles(context.sourceDir, {
    "a/pyproject.toml": '[build-system]\nrequires = ["setuptools", "setuptools-scm>=8"]\n',
    "b/pyproject.toml": '[build-system]\nrequires = ["hatchling"]\n',
  });
  assert.equal((await gitVersionVariables(context, ["b", "a"]))["SETUPTOOLS_SCM_PRETEND_VERSION"], "0.0.0");
  assert.deepEqual(await gitVersionVariables(context, ["b"]), {});
});

test("passes the options for pip in an environment.yml on with their whole values", () => {
  const pip = [
    "fastapi==0.115",
    "-e git+https://host.example/own.git#egg=own",
    "--index-url=https://host.example/?a=b",
  ];
  const packages = ["fastapi==0.110.*", "numpy"].map((line) => ({ name: line.replace(/=.*/, ""), line }));
  const conda = { packages, pip: [...pip, "--pre", "-r more.txt"] };
  assert.deepEqual(pipArguments(conda), {
    argv: [
      ...["-e", "git+https://host.example/own.git#egg=own", "--index-url", "https://host.example/?a=b"],
      ...["--pre", "-r", "more.txt"],
    ],
    lines: ["fastapi==0.115", "numpy"],
  });
});
