import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, rm, utimes } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import type { PythonProject } from "../../src/builds/detect/langgraph-config.ts";
import { readProject } from "../../src/builds/detect/project.ts";
import { noteUser, virtualEnvironment } from "../../src/builds/python/virtual-environment.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import { type Files, scratch, writeFiles } from "./fixtures.ts";

/** A uv that makes empty environments, records what it is asked to install, and fails as configured. */
const fakeUv = `#!/bin/sh
if [ "$1" = venv ]; then
  for target; do :; done
  mkdir -p "$target/bin" "$target/lib/python3.12/site-packages"
  echo "#!$target/bin/python" > "$target/bin/tool"
  : > "$target/bin/python"
  exit 0
fi
constraints=none
previous=
for word; do [ "$previous" = --constraint ] && constraints=$(wc -l < "$word"); previous=$word; done
echo "$constraints pins: $*" >> "$UV_SEEN"
if [ -s "$UV_FAILURES" ]; then
  head -n 1 "$UV_FAILURES" >&2
  tail -n +2 "$UV_FAILURES" > "$UV_FAILURES.rest"
  mv "$UV_FAILURES.rest" "$UV_FAILURES"
  exit 1
fi
`;

/** A build host with that uv, and a project. */
async function openHost(files: Files = {}) {
  const place = await scratch();
  const bin = path.join(place.dir, "bin");
  await writeFiles(bin, { uv: fakeUv });
  await chmod(path.join(bin, "uv"), 0o755);
  const seen = path.join(place.dir, "seen");
  const failures = path.join(place.dir, "failures");
  await writeFiles(place.dir, { seen: "", failures: "" });
  const lines: string[] = [];
  let builds = 0;
  return {
    dir: place.dir,
    root: path.join(place.dir, "cache/python"),
    lines,
    fail: (...messages: string[]) => writeFiles(place.dir, { failures: messages.map((text) => `${text}\n`).join("") }),
    installs: async () => (await readFile(seen, "utf8")).split("\n").filter((line) => line !== ""),
    async build(changes: Files = {}) {
      const sourceDir = path.join(place.dir, `build-${++builds}`, "source");
      await writeFiles(sourceDir, { "langgraph.json": config(["."]), "a.py": "", ...files, ...changes });
      const context = {
        sourceDir,
        cacheDir: path.join(place.dir, "cache"),
        env: { PATH: `${bin}:/usr/bin:/bin`, UV_SEEN: seen, UV_FAILURES: failures },
        log: new BuildLog((line) => lines.push(line.message)),
        signal: new AbortController().signal,
      };
      const project = (await readProject(sourceDir, null, { nodeMajor: 24, target: "directory" })) as PythonProject;
      return virtualEnvironment(context, project, `key-${builds}`);
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
    message: /`uv pip install langgraph-api .* exit code 1[\s\S]*the disk is full/,
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
  await host.fail("  x No solution found when resolving dependencies");
  await host.build({ "langgraph.json": config([".", "pydantic==2.9"]) });
  assert.deepEqual(
    (await host.installs()).slice(1).map((line) => line.slice(0, 7)),
    [all.slice(0, 7), "2 pins:"],
  );
  assert.match(host.lines.join("\n"), /other versions than those the agent server is tested with/);
});

test("uses the agent server that a project pins, and reports other conflicts", async () => {
  await using host = await openHost();
  const conflict = "  x No solution found when resolving dependencies";
  await host.fail(conflict, conflict);
  await host.build({ "langgraph.json": config([".", "langgraph-api==0.15.0"]) });
  assert.deepEqual((await host.installs()).map((line) => Number.parseInt(line, 10)).slice(1), [2, 0]);
  await host.fail(conflict, conflict);
  await assert.rejects(host.build({ "langgraph.json": config(["a==1", "a==2"]) }), { message: /No solution found/ });
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
      message: `langgraph.json: ${place} requires uv, which is not on the PATH of this server. Install uv on the build host.`,
    });
  }
});
