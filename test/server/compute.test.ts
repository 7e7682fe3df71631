import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { Compute } from "../../src/compute/compute.ts";
import { labelsOf, recordOf } from "../../src/compute/docker/replicas/container.ts";
import { ReplicaJournal } from "../../src/compute/docker/replicas/replica-journal.ts";
import { isRunning } from "../../src/compute/process/system/processes.ts";
import { openCompute } from "../../src/server/compute.ts";
import { readListenerConfig } from "../../src/server/listener-config.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { agents, writeAgent } from "../compute/agents.ts";
import { soon } from "../compute/compute-world.ts";
import { anySpec } from "../compute/conformance.ts";
import { startFakeEngine } from "../compute/docker/fake-engine.ts";
import { eventually } from "../support/eventually.ts";

test("pulls images with the operator's registry credentials on the host of a listener", async (context) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-listener-"));
  const authFile = path.join(dataDir, "config.json");
  const auth = Buffer.from("operator:key").toString("base64");
  await writeFile(authFile, JSON.stringify({ auths: { "registry.example.com": { auth } } }));
  let given: string | undefined;
  const { host } = await startFakeEngine(context, ({ url = "", headers }, response) => {
    if (url.includes("/images/create")) {
      given = headers["x-registry-auth"] as string | undefined;
      response.end('{"error":"manifest unknown"}\n');
    } else if (url.includes("/images/")) response.writeHead(404).end('{"message":"no such image"}');
    else if (url.includes("/events")) response.write("\n");
    else response.end(url.endsWith("/info") ? "{}" : "[]");
  });
  const config = readListenerConfig({
    ...{ PIERHEAD_URL: "http://127.0.0.1:1", PIERHEAD_LISTENER_KEY: "key", PIERHEAD_COMPUTE: "docker" },
    ...{ PIERHEAD_DATA_DIR: dataDir, DOCKER_HOST: host, PIERHEAD_REGISTRY_AUTH_FILE: authFile },
  });
  const options = { installationId: "00000000-0000-4000-8000-000000000000", logger: createLogger("silent") };
  const compute = (await openCompute(config, options)) as Compute;
  context.after(async () => {
    await compute.close();
    await rm(dataDir, { recursive: true });
  });
  const uri = "registry.example.com/team/agent:1";
  const spec = anySpec({ kind: "image", digest: "agent:1", uri, health_path: "/ok", rollout: "rolling" });
  await compute.ensure(spec, soon());
  const [refused] = await compute.observe(soon());
  assert.match(refused?.exit?.message ?? "", /manifest unknown/);
  assert.deepEqual(JSON.parse(Buffer.from(given ?? "", "base64url").toString()), {
    username: "operator",
    password: "key",
    serveraddress: "registry.example.com",
  });
});

const ground = { installationId: "00000000-0000-4000-8000-000000000000", logger: createLogger("silent") };
const configOf = (compute: "process" | "docker", dataDir: string, host: string) =>
  readListenerConfig({
    ...{ PIERHEAD_URL: "http://127.0.0.1:1", PIERHEAD_LISTENER_KEY: "key", PIERHEAD_COMPUTE: compute },
    ...{ PIERHEAD_DATA_DIR: dataDir, DOCKER_HOST: host },
  });

test("stops replicas of the previous compute, because no listener would observe them", async (context) => {
  const dataDir = await realpath(await mkdtemp(path.join(tmpdir(), "pierhead-listener-")));
  context.after(() => rm(dataDir, { recursive: true }));
  const { host } = await startFakeEngine(context, ({ url = "" }, response) => {
    if (url.includes("/events")) response.write("\n");
    else response.end(url.endsWith("/info") ? "{}" : "[]");
  });
  const processes = (await openCompute(configOf("process", dataDir, host), ground)) as Compute;
  const spec = anySpec(await writeAgent(path.join(dataDir, "agent"), agents.healthy));
  await processes.ensure(spec, soon());
  await eventually(
    () => processes.observe(soon()),
    ([replica]) => replica?.phase === "ready",
  );
  await processes.close();
  const record = await readFile(path.join(dataDir, "replicas", spec.replicaId, "replica.json"), "utf8");
  const containers = (await openCompute(configOf("docker", dataDir, host), ground)) as Compute;
  await containers.close();
  assert.equal(isRunning(JSON.parse(record).process), false);
  assert.deepEqual((await readdir(dataDir)).sort(), ["agent", "docker", "state"]);
});

test("stops containers of the previous compute as soon as their engine answers", async (context) => {
  const dataDir = await realpath(await mkdtemp(path.join(tmpdir(), "pierhead-listener-")));
  context.after(() => rm(dataDir, { recursive: true }));
  const notes = new ReplicaJournal(dataDir);
  await notes.open();
  const spec = anySpec({ kind: "image", digest: "agent:1", uri: "agent:1", health_path: "/ok", rollout: "rolling" });
  const Labels = labelsOf(recordOf(spec, { memory: "", cpu: "" }), ground.installationId);
  const Names = [`/pierhead-00000000-${spec.replicaId}`];
  let listed = [{ Id: "agent", Names, State: "running", Labels, Ports: [] }];
  const asked: string[] = [];
  const { host } = await startFakeEngine(context, ({ method, url = "" }, response) => {
    const path = url.replace(/^\/v1\.\d+|\?.*/g, "");
    if (method !== "GET") asked.push(`${method} ${path}`);
    if (method === "DELETE") listed = [];
    if (path === "/containers/json") response.end(JSON.stringify(listed));
    else if (path === "/events") response.write("\n");
    else if (path === "/containers/agent/json") {
      response.writeHead(listed.length > 0 ? 200 : 404);
      response.end('{"State":{"Running":true},"NetworkSettings":{"Ports":{}}}');
    } else response.end(path === "/info" ? "{}" : "[]");
  });
  const away = (await openCompute(configOf("process", dataDir, "tcp://127.0.0.1:1"), ground)) as Compute;
  await away.close();
  assert.deepEqual(asked, []);
  const there = (await openCompute(configOf("process", dataDir, host), ground)) as Compute;
  await there.close();
  const network = `/networks/pierhead-00000000-${spec.tenantId}`;
  assert.deepEqual(asked, ["POST /containers/agent/stop", "DELETE /containers/agent", `DELETE ${network}`]);
  assert.deepEqual(await readdir(dataDir), ["replicas"]);
});
