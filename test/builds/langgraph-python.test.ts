import assert from "node:assert/strict";
import { cp, readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { execa } from "execa";
import type { BuildResult } from "../../src/builds/build.ts";
import { templateIgnored, templatesDirectory } from "../../src/builds/sources/templates.ts";
import { begin, filesSource, gitRepository, gitSource, scratch, writeFiles } from "./fixtures.ts";

/** Cache that test runs share, so that packages are downloaded from the index once. */
const cacheDir = path.resolve("node_modules/.cache/pierhead");

/** Long enough for a cold install on a loaded machine. */
const timeoutMs = 500_000;

test("builds a Python agent with its own environment and reuses the environment after a change of code", async (t) => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  const filter = (file: string) => !templateIgnored.has(path.basename(file));
  await cp(path.join(templatesDirectory, "langgraph-python-hello"), repository.dir, { recursive: true, filter });
  const commitSha = await repository.commit({});
  const { build, log } = begin(place.dir, gitSource(repository, commitSha), { cacheDir, timeoutMs });
  const artifact = directoryOf(t, await build.result, log());
  if (artifact === null) return;
  assert.deepEqual([artifact.rollout, artifact.health_path], ["handover", "/ok"]);
  const { start } = artifact;
  assert.ok(start.runner === "langgraph-python" && start.environment_dir.startsWith(cacheDir));

  const understand = "src/hello_agent/understand.py";
  const code = await readFile(path.join(repository.dir, understand), "utf8");
  const later = await repository.commit({ [understand]: code.replace('return "question"', 'return "statement"') });
  const second = begin(place.dir, gitSource(repository, later), { cacheDir, timeoutMs });
  const changed = directoryOf(t, await second.build.result, second.log());
  assert.match(second.log(), /reusing the environment of an earlier build/);
  assert.doesNotMatch(second.log(), /Successfully installed/);

  // Each artifact imports its own code in the shared environment, which contains neither.
  const python = path.join(start.environment_dir, "bin/python");
  for (const [of, kind] of [
    [artifact, "question"],
    [changed, "statement"],
  ] as const) {
    assert.ok(of?.start.runner === "langgraph-python");
    assert.equal(of.start.environment_dir, start.environment_dir);
    const packages = path.join(of.path, of.start.packages_dir);
    const script = `import site; site.addsitedir(${JSON.stringify(packages)}); import hello_agent.understand as u; from importlib.metadata import version; print(u.understand("why?"), u.__file__, version("hello-agent"), sep="\\n")`;
    const { stdout } = await execa(python, ["-P", "-c", script], {
      extendEnv: false,
      env: { PYTHONDONTWRITEBYTECODE: "1" },
    });
    assert.deepEqual(stdout.split("\n"), [kind, path.join(of.path, understand), "1.0.0"]);
  }
  await assert.rejects(execa(python, ["-P", "-c", "import hello_agent"], { extendEnv: false }), /No module named/);
  assert.ok(!(await readdir(artifact.path, { recursive: true })).some((name) => name.includes("__pycache__")));
  assert.ok((await stat(path.join(start.environment_dir, "bin/uvicorn"))).isFile());
});

test("fails the build of conflicting dependencies with the message of pip or uv", async (t) => {
  await using place = await scratch();
  const config = { graphs: { agent: "./agent.py:graph" }, dependencies: ["idna==3.10", "idna==3.11"] };
  for (const installer of ["pip", "uv"] as const) {
    await using _path = installer === "uv" ? await withUv() : null;
    const files = { "langgraph.json": JSON.stringify({ ...config, pip_installer: installer }), "agent.py": "" };
    const source = await filesSource(path.join(place.dir, installer), files);
    const { build, log } = begin(place.dir, source, { cacheDir, timeoutMs });
    const result = await build.result;
    if (!result.ok && isUnreachable(log())) return t.skip(skipped);
    assert.ok(!result.ok && result.reason === "InstallFailed", log());
    assert.match(log(), /The project's own requirements exclude each other/);
    assert.match(result.message, /pip install[\s\S]*idna==3\.10/);
  }
});

test("builds with uv what pip builds, and from a uv lock file", async (t) => {
  await using place = await scratch();
  await using uv = await withUv().catch(() => null);
  if (uv === null) return t.skip(skipped);
  const directory = path.join(place.dir, "source");
  await cp(path.join(templatesDirectory, "langgraph-python-hello"), directory, { recursive: true });
  const config = {
    graphs: { agent: "./src/hello_agent/agent.py:graph" },
    source: { kind: "uv", package: "hello-agent" },
  };
  await writeFiles(directory, { "langgraph.json": JSON.stringify(config) });
  await execa("uv", ["lock", "--quiet", "--project", directory], { env: { UV_CACHE_DIR: path.join(cacheDir, "uv") } });
  const { build, log } = begin(place.dir, { kind: "template", directory, digest: "uv" }, { cacheDir, timeoutMs });
  const artifact = directoryOf(t, await build.result, log());
  if (artifact === null) return;
  assert.ok(artifact.start.runner === "langgraph-python");
  assert.match(log(), /uv export --frozen/);
  const { environment_dir: environmentDir, packages_dir: packagesDir } = artifact.start;
  const script = `import site; site.addsitedir(${JSON.stringify(path.join(artifact.path, packagesDir))}); import hello_agent.agent as a; print(a.__file__)`;
  const { stdout } = await execa(path.join(environmentDir, "bin/python"), ["-P", "-B", "-c", script]);
  assert.equal(stdout, path.join(artifact.path, "src/hello_agent/agent.py"));
});

/** Adds the uv of its npm package to the front of this process's PATH, which its builds inherit. */
async function withUv(): Promise<AsyncDisposable> {
  const directory = path.join(cacheDir, "test-uv-0.13.8");
  if ((await stat(path.join(directory, "bin/uv")).catch(() => null)) === null) {
    await execa("python3", ["-m", "pip", "install", "--quiet", "--target", directory, "uv==0.13.8"]);
  }
  const before = process.env["PATH"];
  process.env["PATH"] = `${path.join(directory, "bin")}:${before}`;
  return {
    async [Symbol.asyncDispose]() {
      process.env["PATH"] = before;
    },
  };
}

test("names a graph that is missing from the source before anything runs", async (t) => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  const filter = (file: string) => !templateIgnored.has(path.basename(file));
  await cp(path.join(templatesDirectory, "langgraph-python-hello"), repository.dir, { recursive: true, filter });
  const config = { graphs: { agent: "./src/hello_agent/other.py:graph" }, dependencies: ["."] };
  const commitSha = await repository.commit({ "langgraph.json": JSON.stringify(config) });
  const { build, log } = begin(place.dir, gitSource(repository, commitSha), { cacheDir, timeoutMs, buildCommand: "x" });
  const result = await build.result;
  if (!result.ok && isUnreachable(log())) return t.skip(skipped);
  assert.ok(!result.ok && result.reason === "ConfigInvalid", log());
  assert.match(result.message, /graphs\.agent names 'src\/hello_agent\/other\.py', which does not exist/);
  assert.match(log(), /install_command and build_command are for JavaScript projects/);
});

type DirectoryArtifact = Extract<Extract<BuildResult, { ok: true }>["artifact"], { kind: "directory" }>;

const skipped = "SKIPPED langgraph-python build: Python 3.11, its venv, or the package index is missing";
const isUnreachable = (log: string) =>
  /NewConnectionError|Temporary failure in name resolution|Network is unreachable|The agent needs Python|without venv/.test(
    log,
  );

/** Skips the test without Python or a package index. Every other failure counts. */
function directoryOf(t: TestContext, result: BuildResult, log: string): DirectoryArtifact | null {
  if (!result.ok && isUnreachable(log)) {
    t.skip(skipped);
    return null;
  }
  assert.ok(result.ok && result.artifact.kind === "directory", log);
  return result.artifact;
}
