import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { environmentOf } from "../../../src/compute/process/langgraph/langgraph-config.ts";
import { openHealthPath, serverOptions } from "../../../src/compute/process/langgraph/langgraph-js-options.ts";
import { checkUnused, lockState, repairState } from "../../../src/compute/process/langgraph/langgraph-js-state.ts";
import { identify } from "../../../src/compute/process/system/processes.ts";

async function stateDirectory() {
  const dir = await mkdtemp(path.join(tmpdir(), "pierhead-state-"));
  const files = path.join(dir, ".langgraph_api");
  await mkdir(files);
  const ops = path.join(files, ".langgraphjs_ops.json");
  return { dir, files, ops, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
}

const opsWith = (status: string) =>
  JSON.stringify({ json: { runs: { a: { status }, b: { status: "success" } } }, meta: { values: 1 } });

test("langgraph-js state: interrupted runs start again, everything else stays unchanged", async () => {
  await using state = await stateDirectory();
  assert.deepEqual(repairState(state.dir), []);
  await writeFile(state.ops, opsWith("running"));
  assert.deepEqual(repairState(state.dir), ["1 interrupted runs start again"]);
  assert.equal(await readFile(state.ops, "utf8"), opsWith("pending"));
  assert.deepEqual(repairState(state.dir), []);
});

test("langgraph-js state: a truncated file is moved aside and replaced by the last good copy", async () => {
  await using state = await stateDirectory();
  await writeFile(state.ops, opsWith("pending"));
  repairState(state.dir);
  const half = opsWith("success").slice(0, 20);
  await writeFile(state.ops, half);
  assert.match(repairState(state.dir)[0] ?? "", /unreadable .* restored the copy of the last start/);
  assert.equal(await readFile(state.ops, "utf8"), opsWith("pending"));
  const aside = (await readdir(state.files)).find((name) => name.includes("unreadable")) ?? assert.fail();
  assert.equal(await readFile(path.join(state.files, aside), "utf8"), half);
});

test("langgraph-js state: a running owner locks others out; a dead one, or one whose pid was reused, does not", async () => {
  await using state = await stateDirectory();
  const file = path.join(state.dir, ".pierhead-lock");
  const owner = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  await once(owner, "spawn");
  const identity = identify(owner.pid ?? 0);
  await writeFile(file, JSON.stringify(identity));
  await assert.rejects(lockState(state.dir), new RegExp(`process ${owner.pid} is using the state`));
  assert.throws(() => checkUnused(state.dir), new RegExp(`process ${owner.pid} is using the state`));
  await writeFile(file, JSON.stringify({ ...identity, startedAt: "another boot" }));
  checkUnused(state.dir);
  (await lockState(state.dir)).release();
  await writeFile(file, JSON.stringify(identity));
  owner.kill("SIGKILL");
  await once(owner, "exit");
  const lock = await lockState(state.dir);
  assert.deepEqual(JSON.parse(await readFile(file, "utf8")), identify(process.pid));
  lock.release();
  assert.deepEqual(await readdir(state.dir), [".langgraph_api"]);
});

test("langgraph-js options: every path of langgraph.json becomes relative to the state directory", () => {
  const config = {
    graphs: { a: "./src/a.ts:graph", b: { path: "b.ts", description: "second" } },
    auth: { path: "auth.ts:auth", disable_studio_auth: true },
    http: { app: "./http/app.ts:app", disable_meta: false },
    ui: { panel: "./ui/panel.tsx" },
  };
  const directories = { directory: "/data/artifacts/x/agent", stateDir: "/data/state/d" };
  const at = "../../artifacts/x/agent";
  assert.deepEqual(serverOptions(config, { ...directories, workers: "3" }), {
    nWorkers: 3,
    cwd: "/data/state/d",
    graphs: { a: `${at}/src/a.ts:graph`, b: { path: `${at}/b.ts:default`, description: "second" } },
    auth: { path: `${at}/auth.ts:auth`, disable_studio_auth: true },
    http: { app: `${at}/http/app.ts:app`, disable_meta: false },
    ui: {},
  });
  assert.equal(serverOptions({ graphs: {} }, { ...directories, workers: "many" }).nWorkers, 10);
});

test("langgraph-js options: the health path answers without credentials", () => {
  assert.equal(openHealthPath({ graphs: {} }), "/ok");
  assert.equal(openHealthPath({ graphs: {}, auth: { path: "a.ts:auth" } }), "/info");
  assert.equal(openHealthPath({ graphs: {}, http: { disable_meta: true } }), null);
});

test("langgraph-js options: env of langgraph.json is a file, a map, or a list that sets nothing", () => {
  assert.deepEqual(environmentOf({ graphs: {}, env: ".env" }), { file: ".env" });
  assert.deepEqual(environmentOf({ graphs: {}, env: { A: 1 } }), { variables: [["A", "1"]] });
  assert.deepEqual(environmentOf({ graphs: {}, env: ["A"] }), { variables: [] });
});
