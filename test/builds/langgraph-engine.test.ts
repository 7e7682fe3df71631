import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { begin } from "./fixtures.ts";

/** An agent whose packages are too old for the engine on PostgreSQL, with a server of its own for files. */
const packages = {
  "@langchain/langgraph": { version: "0.1.0", main: "index.js" },
  "@langchain/langgraph-api": {
    version: "1.0.0",
    exports: { "./server": "./index.js", "./package.json": "./package.json" },
  },
};
const install = `
import { mkdirSync, writeFileSync } from "node:fs";
for (const [name, manifest] of Object.entries(${JSON.stringify(packages)})) {
  mkdirSync("node_modules/" + name, { recursive: true });
  writeFileSync("node_modules/" + name + "/package.json", JSON.stringify({ name, ...manifest }));
  writeFileSync("node_modules/" + name + "/index.js", "");
}
`;

test("fails the build of an agent on PostgreSQL whose packages no longer work with it, instead of using files", async () => {
  const dir = await mkdtemp(path.join(tmpdir(), "pierhead-kept-engine-"));
  after(() => rm(dir, { recursive: true, force: true }));
  const directory = path.join(dir, "source");
  await mkdir(directory);
  const files = {
    "langgraph.json": JSON.stringify({ graphs: { agent: "./agent.js:graph" } }),
    "package.json": JSON.stringify({ name: "agent", type: "module" }),
    "agent.js": "export const graph = {};",
    "install.mjs": install,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(directory, name), text);
  const source = { kind: "template", directory, digest: "a" } as const;
  const build = async (isDefaultKept: boolean) => {
    const changes = { installCommand: "node install.mjs", defaultEngine: "postgres", isDefaultKept } as const;
    const started = begin(dir, source, changes);
    return { ...started, result: await started.build.result };
  };
  const fresh = await build(false);
  assert.ok(fresh.result.ok, fresh.log());
  const { engine, engine_because, rollout } = fresh.result.artifact;
  assert.deepEqual([engine, engine_because, rollout], ["file", "packages", "handover"]);
  assert.match(fresh.log(), /Engine: file, although the deployment has a PostgreSQL, because .*were installed\./);
  const serving = await build(true);
  assert.ok(!serving.result.ok, serving.log());
  assert.equal(serving.result.reason, "ToolchainFailed");
  assert.match(serving.result.message, /on PostgreSQL.*pierhead change NAME --engine file/);
});

test("refuses Aegra for a project that it cannot run, with the reason", async () => {
  const dir = await mkdtemp(path.join(tmpdir(), "pierhead-aegra-"));
  after(() => rm(dir, { recursive: true, force: true }));
  const directory = path.join(dir, "source");
  await mkdir(directory);
  await writeFile(path.join(directory, "agent.py"), "graph = None\n");
  const failureOf = async (settings: object, engine: "aegra" | "file" = "aegra") => {
    const graphs = { agent: "./agent.py:graph" };
    const text = JSON.stringify({ graphs, dependencies: ["."], pip_installer: "pip", ...settings });
    await writeFile(path.join(directory, "langgraph.json"), text);
    const started = begin(dir, { kind: "template", directory, digest: text }, { engine });
    const result = await started.build.result;
    assert.ok(!result.ok, started.log());
    return `${result.reason}: ${result.message}`;
  };
  const old = await failureOf({ python_version: "3.11" });
  assert.match(old, /^EngineUnavailable: python_version is 3\.11 .*"aegra" needs Python 3\.12 or newer/);
  const unknown = await failureOf({ webhooks: {}, encryption: { path: "./agent.py:graph" } });
  assert.match(
    unknown,
    /^EngineUnavailable: langgraph.json has encryption and webhooks, which engine "aegra" does not know/,
  );
  assert.match(await failureOf({}, "file"), /^EngineUnavailable: .*graphs in Python. Possible is "memory" or "aegra"/);
});
