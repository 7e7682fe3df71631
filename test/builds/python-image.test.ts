import assert from "node:assert/strict";
import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { type TestContext, test } from "node:test";
import type { BuildRequest } from "../../src/builds/build.ts";
import { readProject } from "../../src/builds/detect/project.ts";
import { prepareForCluster } from "../../src/builds/image/image-pipeline.ts";
import { engineBases, stageBases } from "../../src/builds/image/make-base.ts";
import { contextExtra, pythonInstructions } from "../../src/builds/image/python-image.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import { startFakeEngine } from "../compute/docker/fake-engine.ts";
import { scratch, writeFiles } from "./fixtures.ts";

const config = { graphs: { agent: "./agent.py:graph" }, source: { kind: "uv", root: "." } };

test("does not run uv on a project with links out of the source", async (context) => {
  for (const link of ["uv.lock", "pyproject.toml", "uv.toml", "member/pyproject.toml"]) {
    await using place = await scratch();
    const source = path.join(place.dir, "source");
    await writeFiles(source, { "langgraph.json": JSON.stringify(config), "member/agent.py": "", "agent.py": "" });
    await writeFile(path.join(place.dir, "master.key"), "of this server");
    const target = path.relative(path.dirname(path.join(source, link)), path.join(place.dir, "master.key"));
    await symlink(target, path.join(source, link));
    const message = `'${link}' is a link out of the source. A uv project must not have such links.`;
    await assert.rejects(instructionsOf(context, source), { reason: "ConfigInvalid", message });
  }
});

test("an agent on Aegra gets a base of its own, with Python 3.12 or newer and what Pierhead adds to Aegra", async () => {
  await using place = await scratch();
  const source = path.join(place.dir, "source");
  const files = {
    "agent.py": "",
    "pyproject.toml": '[project]\nname = "a"\nversion = "1"\nrequires-python = ">=3.10"\n',
  };
  const onAegra = { engine: "aegra", graphs: config.graphs, dependencies: ["."] };
  await writeFiles(source, { ...files, "langgraph.json": JSON.stringify(onAegra) });
  await mkdir(path.join(place.dir, contextExtra));
  const project = await readProject(source, null, { nodeMajor: 24, target: "directory" });
  assert.equal(project.kind, "langgraph-python");
  const env = { PATH: process.env["PATH"] ?? "" };
  const { signal } = new AbortController();
  const context = { sourceDir: source, cacheDir: source, env, log: new BuildLog(() => {}), signal };
  const target = { ...targetOn("unix:///none"), pythonImage: "python:{version}" };
  const instructions = await pythonInstructions(stageBases(context), target, { project, context, label: "LABEL a=b" });
  const dockerfile = instructions.map(({ text }) => text).join("\n");
  assert.match(dockerfile, /^FROM python:3\.1[2-9] AS pierhead-base/);
  assert.match(dockerfile, /aegra-api.*\/opt\/pierhead\/pierhead_aegra\/check\.py/);
  const inBase = (name: string) => readFile(path.join(place.dir, "base/programs", name), "utf8");
  assert.match(await inBase("pierhead_aegra/start.py"), /def prepare/);
  assert.match(await inBase("agent-servers.json"), /aegra-api/);
  const launch = JSON.parse(await readFile(path.join(place.dir, contextExtra, "launch.json"), "utf8"));
  assert.equal(launch.engine, "aegra");

  const inCluster = { ...target, kind: "cluster" as const, listenerId: "", registry: "" };
  const request = { workDir: place.dir, tenantId: "", key: "" } as BuildRequest;
  const { artifact, prepared } = await prepareForCluster(request, inCluster, { project, context });
  assert.partialDeepStrictEqual(artifact, { engine: "aegra", rollout: "rolling", health_path: "/ok" });
  const packed = await readFile(prepared.path, "latin1");
  await rm(prepared.path);
  assert.match(packed, /FROM pierhead-base/);
});

const targetOn = (host: string) => ({
  kind: "image" as const,
  ...{ host, installationId: "00000000-0000-4000-8000-000000000000", nodeImage: "", pythonImage: "" },
  ...{ memoryMib: 512, cpuCores: 1, registryAuthFile: null, network: "none", canLimitProcesses: true },
});

async function instructionsOf(context: TestContext, sourceDir: string) {
  const project = await readProject(sourceDir, null, { nodeMajor: 24, target: "directory" });
  assert.equal(project.kind, "langgraph-python");
  const engine = await startFakeEngine(context, (_, response) => response.writeHead(404).end("{}"));
  const target = targetOn(engine.host);
  const env = { PATH: process.env["PATH"] ?? "" };
  const { signal } = new AbortController();
  const build = { sourceDir, cacheDir: sourceDir, env, log: new BuildLog(() => {}), signal };
  return pythonInstructions(engineBases(engine, target, build), target, {
    project,
    context: build,
    label: "LABEL a=b",
  });
}
