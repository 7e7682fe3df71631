import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, rm, utimes } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import type { PythonProject } from "../../src/builds/detect/langgraph-config.ts";
import { readProject } from "../../src/builds/detect/project.ts";
import { serverEnvironment } from "../../src/builds/python/server-environment.ts";
import { noteUser } from "../../src/builds/python/shared-environment.ts";
import { toolEnvironment } from "../../src/builds/python/tool-environment.ts";
import { virtualEnvironment } from "../../src/builds/python/virtual-environment.ts";
import type { PythonServer } from "../../src/builds/python/wanted-version.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import { type Files, scratch, writeFiles } from "./fixtures.ts";

/**
 * A uv that makes environments without packages, whose probe passes unless a test makes it fail once, records what it is asked to install, resolves and fails as
 * configured. It prints the reason of a failure first and explains it at length, as uv does.
 */
const fakeUv = `#!/bin/sh
if [ "$1" = venv ]; then
  for target; do :; done
  mkdir -p "$target/bin" "$target/lib/python3.12/site-packages"
  [ -e "$UV_SEEN.setuptools" ] && mkdir "$target/lib/python3.12/site-packages/setuptools-84.2.1.dist-info"
  echo "#!$target/bin/python" > "$target/bin/tool"
  cat > "$target/bin/python" <<'END'
#!/bin/sh
case "$2" in *langgraph-python-probe.py)
  [ -s "$UV_PROBE" ] && cat "$UV_PROBE" && rm "$UV_PROBE" && exit 1
  echo works; exit 0 ;;
esac
exec python3 "$@"
END
  chmod 755 "$target/bin/python"
  exit 0
fi
if [ "$1" = export ]; then
  for target; do :; done
  grep -q "^stale" uv.lock && echo "error: the lock file does not cover the project" >&2 && exit 2
  cat uv.lock > "$target"
  exit 0
fi
constraints=none
previous=
for word; do [ "$previous" = --constraint ] && constraints=$(wc -l < "$word"); previous=$word; done
[ -f uv.toml ] && settings=" with the settings of the source"
echo "$constraints pins: $*$settings" >> "$UV_SEEN"
if [ -s "$UV_FAILURES" ]; then
  first=$(head -n 1 "$UV_FAILURES")
  tail -n +2 "$UV_FAILURES" > "$UV_FAILURES.rest"
  mv "$UV_FAILURES.rest" "$UV_FAILURES"
  [ "$first" = none ] && exit 0
  echo "$first" >&2
  seq 60 | sed "s/^/      and because of reason /" >&2
  exit 1
fi
case "$*" in *--dry-run*) cat "$UV_RESOLVED" ;; esac
`;

/** A build host with that uv, and a project. */
async function openHost(files: Files = {}) {
  const place = await scratch();
  const bin = path.join(place.dir, "bin");
  await writeFiles(bin, { uv: fakeUv });
  await chmod(path.join(bin, "uv"), 0o755);
  const seen = path.join(place.dir, "seen");
  const failures = path.join(place.dir, "failures");
  const resolved = path.join(place.dir, "resolved");
  await writeFiles(place.dir, { seen: "", failures: "", resolved: "" });
  const lines: string[] = [];
  let builds = 0;
  return {
    dir: place.dir,
    root: path.join(place.dir, "cache/python"),
    lines,
    fail: (...messages: string[]) => writeFiles(place.dir, { failures: messages.map((text) => `${text}\n`).join("") }),
    failProbe: (because: string) => writeFiles(place.dir, { probe: `${because}\n` }),
    /** What the project alone resolves to. */
    resolve: (...packages: string[]) =>
      writeFiles(place.dir, { resolved: packages.map((one) => ` + ${one}\n`).join("") }),
    installs: async () => (await readFile(seen, "utf8")).split("\n").filter((line) => line !== ""),
    log: () => lines.join("\n"),
    pins: async () => (await readFile(seen, "utf8")).match(/^\d+(?= pins)/gm)?.map(Number) ?? [],
    async build(changes: Files = {}) {
      const context = await this.context(changes);
      const project = await readProject(context.sourceDir, null, { nodeMajor: 24, target: "directory" });
      const key = `key-${builds}`;
      if (project.kind === "command") return serverEnvironment(context, project as PythonServer, key);
      return virtualEnvironment(context, project as PythonProject, key);
    },
    /** What the steps of the next build share. */
    async context(changes: Files = {}) {
      const sourceDir = path.join(place.dir, `build-${++builds}`, "source");
      await writeFiles(sourceDir, { "langgraph.json": config(["."]), "a.py": "", ...files, ...changes });
      return {
        sourceDir,
        cacheDir: path.join(place.dir, "cache"),
        env: {
          PATH: `${bin}:/usr/bin:/bin`,
          UV_SEEN: seen,
          UV_FAILURES: failures,
          UV_RESOLVED: resolved,
          UV_PROBE: path.join(place.dir, "probe"),
          PIP_NO_INDEX: "1",
        },
        log: new BuildLog((line) => lines.push(line.message)),
        signal: new AbortController().signal,
      };
    },
    [Symbol.asyncDispose]: () => place[Symbol.asyncDispose](),
  };
}

const config = (dependencies: string[]) => JSON.stringify({ graphs: { a: "./a.py:graph" }, dependencies });

test("shares one complete environment between builds with equal requirements", async () => {
  await using host = await openHost({ "requirements.txt": "requests\n" });
  await host.fail("error: the disk is full");
  await assert.rejects(host.build(), {
    reason: "InstallFailed",
    message: /`uv pip install langgraph-api .* exit code 1/,
  });
  assert.deepEqual(await readdir(host.root), []);
  const first = await host.build();
  assert.equal(await host.build({ "a.py": "changed = True" }), first);
  assert.match(host.lines.join("\n"), /reusing the environment of an earlier build/);
  assert.equal((await host.installs()).length, 2);
  assert.equal(await readFile(path.join(first, "bin/tool"), "utf8"), `#!${first}/bin/python\n`);
  assert.notEqual(await host.build({ "requirements.txt": "httpx\n" }), first);
  assert.equal((await host.installs()).length, 3);
});

test("installs a program that all projects share without the settings of one of them", async () => {
  await using host = await openHost({ "uv.toml": "" });
  const first = await toolEnvironment(await host.context(), ["mcp-proxy>=0.8"]);
  assert.equal(await toolEnvironment(await host.context(), ["mcp-proxy>=0.8"]), first);
  const [installed = "", ...others] = await host.installs();
  assert.match(installed, /mcp-proxy>=0\.8$/);
  assert.deepEqual(others, []);
});

test("shares no environment between projects whose settings choose other packages", async () => {
  const own = { "pierhead.json": JSON.stringify({ start: ["python", "a.py"], python: true }) };
  await using host = await openHost({ ...own, "requirements.txt": "fastapi\n" });
  const first = await host.build();
  const index = 'index-url = "https://packages.invalid/simple"\n';
  const settings = [{ "uv.toml": index }, { "pyproject.toml": `[tool.uv]\n${index}` }];
  const others = [await host.build(settings[0]), await host.build(settings[1])];
  assert.equal(new Set([first, ...others]).size, 3);
  assert.equal(await host.build({ "pyproject.toml": "[tool.ruff]\n" }), first);
});

test("installs once for two simultaneous builds", async () => {
  await using host = await openHost();
  const [one, two] = await Promise.all([host.build(), host.build()]);
  assert.equal(one, two);
  assert.equal((await host.installs()).length, 1);
});

test("pins the tested versions of the server unless the project pins others", async () => {
  await using host = await openHost();
  await host.build();
  const [all = ""] = await host.installs();
  assert.ok(Number.parseInt(all, 10) > 50, all);
  await host.fail(conflict);
  await host.resolve("langgraph==1.2.0", "pydantic==2.9");
  await host.build({ "langgraph.json": config([".", "pydantic==2.9"]) });
  assert.deepEqual(await host.pins(), [Number.parseInt(all, 10), Number.parseInt(all, 10), 0, 2]);
  assert.match(host.log(), /Using the agent server 0\.16\.7, the newest that works with langgraph 1\.2\.0/);
  const before = host.log().length;
  await host.build({ "langgraph.json": config([".", "pydantic==2.9"]) });
  assert.match(
    host.log().slice(before),
    /reusing the environment of an earlier build, which said:\n.*Using the agent server 0\.16\.7/,
    "a build that reuses the environment says what was chosen, too",
  );
});

const conflict = "  x No solution found when resolving dependencies";

test("installs the newest agent server whose requirements fit what the project needs", async () => {
  for (const [packages, version] of [
    [["langgraph==0.6.8", "langgraph-checkpoint==2.1.2", "langchain-core==0.3.80"], "0.4.48"],
    [["langgraph==0.3.34", "langgraph-checkpoint==2.1.2", "langchain-core==0.3.40"], "0.2.30"],
    [["langgraph==0.2.76", "langgraph-checkpoint==2.1.2", "langchain-core==0.3.80"], "0.1.4"],
  ] as const) {
    await using host = await openHost({ "requirements.txt": "langgraph\n" });
    await host.fail(conflict);
    await host.resolve(...packages);
    await host.build();
    const [, , last = ""] = await host.installs();
    assert.match(last, /^[4-7]\d pins: /, "the server is installed with the packages it is tested with");
    assert.match(
      host.log(),
      new RegExp(`Using the agent server ${version}, the newest that works with ${packages[0]?.replace("==", " ")}`),
    );
  }
});

test("names the conflict in the user's words when no agent server fits", async () => {
  await using host = await openHost({ "requirements.txt": "langgraph\n" });
  await host.fail(conflict);
  await host.resolve("langgraph==0.2.20", "langchain-core==0.2.43");
  await assert.rejects(host.build(), {
    reason: "InstallFailed",
    message:
      /The agent server needs langgraph 0\.2\.56 or newer, but the project installs langgraph 0\.2\.20\. Raise it/,
  });
});

test("uses the agent server that a project pins, and reports requirements that exclude each other", async () => {
  await using host = await openHost();
  await host.fail(conflict);
  await host.resolve("langgraph-api==0.15.0");
  await host.build({ "langgraph.json": config([".", "langgraph-api==0.15.0"]) });
  assert.deepEqual((await host.pins()).slice(1), [0, 0]);
  assert.match(host.log(), /pins another version of the agent server: using that version/);
  await host.fail(conflict, conflict);
  await assert.rejects(host.build({ "langgraph.json": config(["a==1", "a==2"]) }), {
    message: /The project's own requirements exclude each other/,
  });
});

test("replaces an agent server that only a tool for development names and that does not work", async () => {
  await using host = await openHost({ "requirements.txt": "langgraph-cli[inmem]==0.1.89\n" });
  await host.fail(conflict);
  await host.failProbe("it ended at once");
  await host.resolve("langgraph==0.2.76", "langgraph-api==0.0.48", "langgraph-checkpoint==2.1.2");
  await host.build();
  assert.match(
    host.log(),
    /The agent server 0\.0\.48, which the project's requirements name, does not work .*: it ended at once\. Replacing it/,
  );
  assert.match((await host.installs()).at(-1) ?? "", /--override/);
  assert.match(host.log(), /Using the agent server 0\.1\.4, the newest that works with langgraph 0\.2\.76/);
});

test("installs the versions of a uv.lock, and gives it up when no agent server works with it", async () => {
  const lock = `version = 1
[[package]]
name = "langgraph"
version = "0.6.7"
source = { registry = "https://packages.invalid/simple" }
[[package]]
name = "agent"
version = "1.0.0"
source = { editable = "." }
`;
  const files = { "pyproject.toml": '[project]\nname = "agent"\nversion = "1.0.0"\n', "uv.lock": lock };
  await using host = await openHost(files);
  await host.build();
  assert.match(host.log(), /Installing the versions in uv\.lock/);
  await host.fail(...Array.from({ length: 2 }, () => conflict));
  await host.build({ "uv.lock": lock.replace("0.6.7", "0.6.6") });
  assert.match(host.log(), /No agent server works with the versions in uv\.lock/);
  assert.match((await host.installs()).at(-2) ?? "", /pip compile/);
  assert.match(host.log(), /Using the agent server [\d.]+ and 1 of the 1 locked versions/);
});

test("installs a uv.lock again after a build in which its versions did not exist", async () => {
  await using host = await openHost({
    "pierhead.json": JSON.stringify({ start: ["python", "a.py"], python: true }),
    "pyproject.toml": '[project]\nname = "a"\ndependencies = ["fastapi"]\n',
    "uv.lock": "version = 1\nfastapi==0.1.0\n",
  });
  const gone = "error: HTTP status client error (404 Not Found) for url (https://packages.invalid/a.whl)";
  // Neither the index nor the files that the lock names have it.
  await host.fail(gone, gone);
  const unlocked = await host.build();
  assert.match(host.log(), /The versions in uv\.lock contradict the project, or do not exist any more/);
  assert.match(host.log(), /1 of the 1 versions in uv\.lock still fit and are kept/);
  assert.match((await host.installs()).at(-1) ?? "", /^1 pins: .*kept-versions\.txt/);
  const locked = await host.build();
  assert.notEqual(locked, unlocked);
  assert.equal(await host.build(), locked);
  await host.fail("error: request 404 was cancelled");
  await assert.rejects(host.build({ "uv.lock": "version = 2\n" }), { reason: "InstallFailed" });
});

test("keeps the versions of a uv.lock that no longer covers the project, where they fit", async () => {
  const locked = (version: string) => `[[package]]
name = "fastapi"
version = "${version}"
source = { registry = "https://packages.invalid/simple" }
`;
  const files = {
    "pierhead.json": JSON.stringify({ start: ["python", "a.py"], python: true }),
    "pyproject.toml": '[project]\nname = "a"\ndependencies = ["fastapi"]\n',
    "uv.lock": `stale = 1\n${locked("0.1.0")}`,
  };
  await using host = await openHost(files);
  await host.build();
  assert.match(host.log(), /The uv\.lock does not fit the project any more/);
  assert.match(host.log(), /1 of the 1 versions in uv\.lock still fit and are kept/);
  assert.match((await host.installs()).at(-1) ?? "", /^1 pins: .*kept-versions\.txt/);
  // A member that the source lacks gives up the lock file, but not the other versions in it.
  await using other = await openHost({ ...files, "uv.lock": `${locked("0.1.0")}-e ./gone\n` });
  await other.build();
  assert.match(
    other.log(),
    /packages that the source does not have: \.\/gone\. Installing what the project allows, with the versions of uv\.lock/,
  );
  assert.match((await other.installs()).at(-1) ?? "", /^1 pins: .*kept-versions\.txt/);
});

test("installs what a project allows when not even the kept versions of its uv.lock can be installed", async () => {
  await using host = await openHost({
    "pierhead.json": JSON.stringify({ start: ["python", "a.py"], python: true }),
    "pyproject.toml": '[project]\nname = "a"\ndependencies = ["fastapi"]\n',
    "uv.lock": "version = 1\nfastapi==0.1.0\n",
  });
  const conflict = "error: No solution found when resolving dependencies";
  await host.fail(conflict, conflict, "none", conflict);
  await host.build();
  assert.match(host.log(), /Not all versions that were kept can be installed\. Installing without them\./);
  assert.doesNotMatch((await host.installs()).at(-1) ?? "", /kept-versions/);
});

test("looks for a version that needs no build when a package cannot be built", async () => {
  const start = JSON.stringify({ start: ["python", "a.py"], python: true });
  for (const files of [{ "pierhead.json": start, "requirements.txt": "av\n" }, { "requirements.txt": "av\n" }]) {
    await using host = await openHost(files);
    await host.fail("error: Failed to build `av==14.4.0`");
    await host.build();
    assert.match((await host.installs()).at(-1) ?? "", /--only-binary av/);
    assert.match(host.log(), /av cannot be built on this machine/);
  }
  const failing = "error: Failed to build `av==14.4.0`";
  await using host = await openHost({ "pierhead.json": start, "requirements.txt": "av\n" });
  await host.fail(failing, "error: No solution found when resolving dependencies");
  await assert.rejects(host.build(), { message: /because of reason/ });
});

test("installs a setuptools with pkg_resources for packages that need setuptools, unless others need a newer one", async () => {
  const start = JSON.stringify({ start: ["python", "a.py"], python: true });
  await using host = await openHost({ "pierhead.json": start, "requirements.txt": "old\n" });
  await writeFiles(host.dir, { "seen.setuptools": "" });
  await host.build();
  assert.match((await host.installs()).at(-1) ?? "", /--requirement requirements\.txt setuptools<82$/);
  await host.fail("none", "error: No solution found when resolving dependencies");
  await host.build({ "requirements.txt": "new\n" });
  assert.match(host.log(), /Note: the project needs a newer setuptools/);
});

test("installs what a Pipfile allows when the versions of its Pipfile.lock exclude each other", async () => {
  const start = JSON.stringify({ start: ["python", "a.py"], python: true });
  const lock = JSON.stringify({ default: { fastapi: { version: "==0.1.0" } } });
  const files = { Pipfile: '[packages]\nfastapi = "*"\n', "Pipfile.lock": lock };
  await using host = await openHost({ "pierhead.json": start, ...files });
  await host.fail("error: No solution found when resolving dependencies");
  await host.build();
  assert.match(host.log(), /versions in Pipfile\.lock contradict the project.*run `pipenv lock`/s);
  assert.match((await host.installs()).at(-1) ?? "", /pipfile-requirements\.txt/);
});

test("gives up what only requirements.txt lists when it cannot be installed", async () => {
  const start = JSON.stringify({ start: ["python", "a.py"], python: true });
  const project = { "pyproject.toml": '[project]\nname = "a"\ndependencies = ["fastapi"]\n' };
  await using host = await openHost({ "pierhead.json": start, ...project, "requirements.txt": "legacy\n" });
  await host.fail("error: command 'cc' failed");
  await host.build();
  assert.match(host.log(), /also lists legacy, .*Not all that requirements\.txt lists can be installed/s);
  assert.doesNotMatch((await host.installs()).at(-1) ?? "", /also-requirements/);
});

test("installs packages from where the sources of uv say, also in a project that is no package", async () => {
  await using host = await openHost({
    "pierhead.json": JSON.stringify({ start: ["python", "a.py"], python: true }),
    "pyproject.toml":
      '[project]\nname = "a"\ndependencies = ["words"]\n[tool.uv.sources]\nwords = { path = "./words" }\n',
  });
  await host.build();
  assert.match((await host.installs()).at(-1) ?? "", /--requirement pyproject\.toml/);
});

test("installs only the dependencies of a project that its build backend cannot package", async () => {
  const pyproject =
    '[project]\nname = "a"\nversion = "1"\ndependencies = ["fastapi"]\n[build-system]\nrequires = ["x"]\n';
  await using agent = await openHost({ "pyproject.toml": pyproject });
  const unbuilt = (dir: string) => `error: Failed to build \`a @ file://${path.join(dir, "build-1/source")}\``;
  await agent.fail(unbuilt(agent.dir));
  await agent.build();
  assert.match((await agent.installs()).at(-1) ?? "", / --requirement \.\/pyproject\.toml$/);
  await using server = await openHost({
    "pierhead.json": JSON.stringify({ start: ["python", "a.py"], python: true }),
    "pyproject.toml": pyproject,
    "uv.lock": "-e .\nfastapi==1\n",
  });
  await server.fail(unbuilt(server.dir));
  await server.build();
  assert.match((await server.installs()).at(-1) ?? "", /uv-requirements-alone\.txt$/);
  // A package of others of which no version can be installed without a build still fails the build.
  await agent.fail("error: Failed to build `grpcio==1`", "error: Failed to build `grpcio==1`");
  await assert.rejects(agent.build({ "pyproject.toml": `${pyproject}# other\n` }), { reason: "InstallFailed" });
});

test("keeps an environment while an artifact uses it, and unused ones for a day", async () => {
  await using host = await openHost();
  const [used, unused, fresh] = [
    await host.build({ "requirements.txt": "a" }),
    await host.build({ "requirements.txt": "b" }),
    await host.build({ "requirements.txt": "c" }),
  ];
  const artifact = path.join(host.dir, "artifacts/one");
  await writeFiles(artifact, { ".pierhead-artifact.json": "{}" });
  for (const environment of [used, unused]) {
    await noteUser(environment, environment === used ? artifact : path.join(host.dir, "artifacts/gone"));
    await utimes(environment, new Date(0), new Date(0));
  }
  await mkdir(path.join(host.root, "other"), { recursive: true });
  const last = await host.build({ "requirements.txt": "d" });
  const left = (await readdir(host.root)).map((name) => path.join(host.root, name));
  assert.deepEqual(left.sort(), [used, fresh, last, path.join(host.root, "other")].sort());
});

test("reports a missing uv to a project that requires it", async () => {
  await using host = await openHost();
  await rm(path.join(host.dir, "bin/uv"));
  const locked = { graphs: { a: "./a.py:graph" }, source: { kind: "uv" } };
  const asking = { graphs: { a: "./a.py:graph" }, dependencies: ["."], pip_installer: "uv" };
  for (const [wanted, place] of [
    [locked, "source.kind"],
    [asking, "pip_installer"],
  ] as const) {
    await assert.rejects(host.build({ "langgraph.json": JSON.stringify(wanted) }), {
      reason: "ToolchainFailed",
      message: `langgraph.json: ${place} requires uv, which is neither on the PATH of this server nor in its package index. Install uv on the build host.`,
    });
  }
});
