import assert from "node:assert/strict";
import { symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { readProject } from "../../src/builds/detect/project.ts";
import { engineBases } from "../../src/builds/image/make-base.ts";
import { pythonInstructions } from "../../src/builds/image/python-image.ts";
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

async function instructionsOf(context: TestContext, sourceDir: string) {
  const project = await readProject(sourceDir, null, { nodeMajor: 24, target: "directory" });
  assert.equal(project.kind, "langgraph-python");
  const engine = await startFakeEngine(context, (_, response) => response.writeHead(404).end("{}"));
  const target = {
    kind: "image" as const,
    ...{ host: engine.host, installationId: "00000000-0000-4000-8000-000000000000", nodeImage: "", pythonImage: "" },
    ...{ memoryMib: 512, cpuCores: 1, registryAuthFile: null, network: "none", canLimitProcesses: true },
  };
  const env = { PATH: process.env["PATH"] ?? "" };
  const { signal } = new AbortController();
  const build = { sourceDir, cacheDir: sourceDir, env, log: new BuildLog(() => {}), signal };
  return pythonInstructions(engineBases(engine, target, build), target, {
    project,
    context: build,
    label: "LABEL a=b",
  });
}
