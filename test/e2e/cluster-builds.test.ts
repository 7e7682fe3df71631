import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { list } from "tar";
import { systemClock } from "../../src/base/clock.ts";
import type { ImageBuilds } from "../../src/compute/image-builds.ts";
import { KubeError } from "../../src/compute/kubernetes/api/api-server.ts";
import { contextUnread } from "../../src/contract/listeners/build-order.ts";
import { ClusterBuilds } from "../../src/listener/clusters/cluster-builds.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";
import { buildingListeners } from "./building-listeners.ts";

const server = await startTestServer({ PIERHEAD_COMPUTE: "none", PIERHEAD_ALLOW_LOCAL_SOURCES: "1" });
const repository = await createAgentRepository(nodeAgent("1"));
after(async () => {
  await server[Symbol.asyncDispose]();
  await repository[Symbol.asyncDispose]();
});
const { client } = server;
const signal = AbortSignal.timeout(120_000);

const { openListener: open, deploy, nextOrder } = buildingListeners(server, repository.url, signal);
const openListener = (name: string) => open(name, "registry.example.com/agents");

const image = `registry.example.com/agents@sha256:${createHash("sha256").update("image").digest("hex")}`;

test("a listener gets the context of a build, its log is the build log, and the image is deployed once for equal sources", async () => {
  const { id, session } = await openListener("builds");
  assert.equal((await client.getListener({ listener_id: id })).image_registry, "registry.example.com/agents");
  const made = await deploy("first", id);
  const order = await nextOrder(session);
  const answer = await fetch(server.url + order.context_path);
  assert.equal(answer.status, 200);
  const names = await namesIn(Buffer.from(await answer.arrayBuffer()));
  assert.ok(["Dockerfile", "source/server.js", "base/programs/package.json"].every((name) => names.includes(name)));
  const forged = await fetch(server.url + order.context_path.replace(/signature=.{4}/, "signature=AAAA"));
  assert.equal(forged.status, 403);

  // Another server of the installation has the file.
  const [file] = await readdir(path.join(server.dataDir, "builds"));
  const [here, elsewhere] = [
    path.join(server.dataDir, "builds", file as string),
    path.join(server.dataDir, "elsewhere"),
  ];
  await rename(here, elsewhere);
  const redirected = await fetch(server.url + order.context_path, { redirect: "manual" });
  assert.equal(redirected.status, 307);
  assert.equal((await fetch(server.url + order.context_path)).status, 403);
  await rename(elsewhere, here);
  const location = new URL(redirected.headers.get("location") as string, server.url + order.context_path);
  assert.equal((await fetch(location)).status, 200);

  const line = { key: "1", timestamp: new Date().toISOString(), stream: "stdout", level: "INFO" } as const;
  const lines = [{ ...line, message: "added 12 packages" }];
  assert.equal(await session.reportBuild(order.build_id, { lines, end: null }, signal), true);
  await session.reportBuild(order.build_id, { lines, end: { image, reason: null, message: "" } }, signal);
  const assigned = await eventually(
    async () => (await session.desired(0, 0, signal)).items[0]?.target,
    (target) => target != null,
    { timeoutMs: 20_000, what: "the assignment" },
  );
  assert.partialDeepStrictEqual(assigned?.artifact, { kind: "image", uri: image, health_path: "/ok" });
  const { logs } = await client.readBuildLogs({
    ...{ deployment_id: made.id, revision_id: made.latest_revision_id as string },
    body: { limit: 100, order: "asc" },
  });
  const shown = logs.map(({ message }) => message);
  assert.equal(shown.filter((message) => message === "added 12 packages").length, 1);
  assert.match(shown.at(-1) ?? "", /^Step 4\/4 done in .*: registry.example.com/);
  assert.equal((await fetch(server.url + order.context_path)).status, 403);
  assert.deepEqual(await readdir(path.join(server.dataDir, "builds")), []);

  const again = await deploy("second", id);
  await eventually(
    async () => (await session.desired(0, 0, signal)).items.some(({ deployment_id }) => deployment_id === again.id),
    (isAssigned) => isAssigned,
    { timeoutMs: 20_000, what: "the second assignment" },
  );
  assert.deepEqual(await session.buildOrders([], 0, signal), []);
});

test("a cancelled build is withdrawn from its listener, and a failed one shows what the listener says", async () => {
  const { id, session } = await openListener("cancels");
  const made = await deploy("cancelled", id);
  const order = await nextOrder(session);
  await client.interruptRevision({ deployment_id: made.id, revision_id: made.latest_revision_id as string });
  assert.deepEqual(await session.buildOrders([order.build_id], 30_000, signal), []);
  assert.equal(await session.reportBuild(order.build_id, { lines: [], end: null }, signal), false);

  await repository.commit({ "server.js": "// another commit" });
  const other = await deploy("failing", id);
  const { build_id } = await nextOrder(session);
  const end = { image: null, reason: "BuildFailed", message: "npm ci ended with exit code 7." } as const;
  await session.reportBuild(build_id, { lines: [], end }, signal);
  const ids = { deployment_id: other.id, revision_id: other.latest_revision_id as string };
  const failed = await client.waitForRevision(ids);
  assert.equal(failed.status, "BUILD_FAILED");
  assert.match(failed.status_message ?? "", /npm ci ended with exit code 7/);
  const { health } = await client.getDeployment({ deployment_id: other.id });
  assert.deepEqual(
    [health.status, health.failure?.code, health.next_action?.kind],
    ["failed", "build_failed", "read_build_log"],
  );
});

test("a build whose context the cluster could not download is ordered again, as its log shows", async () => {
  const { id, session } = await openListener("unread");
  await repository.commit({ "server.js": "// read at the second attempt" });
  const made = await deploy("unread", id);
  const first = await nextOrder(session);
  const end = { image: null, reason: "BuilderFailed", message: `${contextUnread} (unexpected EOF).` } as const;
  await session.reportBuild(first.build_id, { lines: [], end }, signal);
  const second = await nextOrder(session);
  assert.notEqual(second.build_id, first.build_id);
  await session.reportBuild(second.build_id, { lines: [], end: { image, reason: null, message: "" } }, signal);
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const { logs } = await client.readBuildLogs({ ...ids, body: { limit: 100, order: "asc" } });
  assert.ok(logs.some(({ message }) => message === `${end.message} The build starts again.`));
});

test("an image whose packages do not work with PostgreSQL is built again on files, unless the engine was chosen", async () => {
  const { id, session } = await openListener("misfit");
  await repository.commit({
    "langgraph.json": JSON.stringify({ graphs: { agent: "./agent.js:graph" } }),
    "agent.js": "",
    "package.json": JSON.stringify({ name: "agent", dependencies: { "@langchain/langgraph": "^1.0.0" } }),
  });
  const made = await deploy("misfit", id, { config: "langgraph.json" });
  const end = {
    image: null,
    reason: "BuildFailed",
    message:
      'process "node tidy.js" did not complete successfully: exit code: 3. Last lines:\nNo LangGraph.js server on PostgreSQL works with @langchain/langgraph 1.3.9. Update them together.',
  } as const;
  const first = await nextOrder(session);
  await session.reportBuild(first.build_id, { lines: [], end }, signal);
  const second = await nextOrder(session);
  assert.equal(second.deployment_id, made.id);
  await session.reportBuild(second.build_id, { lines: [], end: { image, reason: null, message: "" } }, signal);
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const built = await eventually(
    () => client.getRevision(ids),
    ({ engine }) => engine !== null,
    { timeoutMs: 20_000, what: "the image" },
  );
  assert.deepEqual([built.engine, built.engine_because, built.rollout], ["file", "packages", "handover"]);
  const { logs } = await client.readBuildLogs({ ...ids, body: { limit: 100, order: "asc" } });
  const shown = logs.map(({ message }) => message).join("\n");
  assert.match(
    shown,
    /Engine: file, although the deployment has a PostgreSQL, because its server does not work with the packages/,
  );
  assert.doesNotMatch(shown, /BuildFailed/);

  const other = await deploy("chosen", id, { config: "langgraph.json", engine: "postgres" });
  const chosen = await nextOrder(session);
  await session.reportBuild(chosen.build_id, { lines: [], end }, signal);
  const failed = await client.waitForRevision({
    deployment_id: other.id,
    revision_id: other.latest_revision_id as string,
  });
  assert.equal(failed.status, "BUILD_FAILED");
  assert.match(failed.status_message ?? "", /works with @langchain\/langgraph 1\.3\.9/);
});

test("the command line deploys a directory and a git repository on a listener by its name", async () => {
  const { id, session } = await openListener("by-name");
  await using source = await createDirectory(nodeAgent("from a directory"));
  const cli = (...args: string[]) =>
    runCli([...args, "--no-wait", "--url", server.url], {
      env: { PATH: process.env["PATH"], PIERHEAD_API_KEY: server.apiKey },
    });
  for (const [name, from] of [
    ["by-directory", source.directory],
    ["by-git", repository.url],
  ] as const) {
    const { code, stderr } = await cli(
      "deploy",
      from,
      "--name",
      name,
      "--config",
      "pierhead.json",
      "--listener",
      "by-name",
    );
    assert.equal(code, 8, stderr);
    const { resources } = await client.listDeployments({ name });
    assert.equal(resources[0]?.source_config.listener_id, id);
    const order = (await session.buildOrders([], 30_000, signal)).find((one) => one.deployment_id === resources[0]?.id);
    assert.ok(order, name);
    const other = await cli("deploy", from, "--name", name, "--listener", "by-name", "--namespace", "other");
    assert.match(other.stderr, new RegExp(`${name} does not run in the namespace other`));
    await client.deleteDeployment({ deployment_id: order.deployment_id });
  }
  await client.createDeployment({
    body: { name: "here", source: "internal_source", source_config: {}, source_revision_config: {}, secrets: [] },
  });
  const moved = await cli("deploy", source.directory, "--name", "here", "--listener", "by-name");
  assert.equal(moved.code, 1);
  assert.match(moved.stderr, /here does not run on the listener by-name.*Only the first deploy chooses/s);
  const { code, stderr } = await cli("deploy", source.directory, "--name", "elsewhere", "--listener", "by-nam");
  assert.equal(code, 1);
  assert.match(stderr, /There is no listener "by-nam".*Listeners: by-name/s);
});

test("answers a listener that knows hundreds of builds when their list differs", async () => {
  const { session } = await openListener("busy");
  const known = Array.from({ length: 500 }, () => randomUUID());
  assert.deepEqual(await session.buildOrders(known, 30_000, signal), []);
});

test("a log that is larger than the protocol's limits arrives, and a busy API server fails no build", async () => {
  const { id, session } = await openListener("shouts");
  await repository.commit({ "server.js": "// a commit with a long log" });
  const made = await deploy("shouting", id);
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const long = (at: number) => `${at} \u0000\u0007${"é".repeat(100_000)}`;
  const line = { timestamp: new Date().toISOString(), stream: "stdout", level: "INFO" } as const;
  const lines = Array.from({ length: 24 }, (_, at) => ({ ...line, key: `build/${at}`, message: long(at) }));
  let starts = 0;
  const cluster: ImageBuilds = {
    async start() {
      starts += 1;
      if (starts === 1) throw new KubeError(503, { message: "etcd has no leader" });
    },
    inspect: async () => ({ image, reason: null, message: "" }),
    readLog: async (_, cursor) => ({ lines: cursor === null ? lines : [], cursor: "end" }),
    remove: async () => {},
    list: async () => [],
    startRemoval: async () => {},
    inspectRemoval: async () => null,
  };
  const options = { builds: cluster, controlPlaneUrl: server.url, clock: systemClock, logger: createLogger("error") };
  const builds = new ClusterBuilds({ ...options, onStale: assert.fail });
  builds.follow(session);
  try {
    const assigned = await eventually(
      async () => (await session.desired(0, 0, signal)).items.find((one) => one.deployment_id === made.id)?.target,
      (target) => target != null,
      { timeoutMs: 30_000, what: "the assignment" },
    );
    assert.partialDeepStrictEqual(assigned?.artifact, { uri: image });
  } finally {
    builds.close();
  }
  assert.equal(starts, 2);
  const { logs } = await client.readBuildLogs({ ...ids, body: { limit: 100, order: "asc" } });
  const shown = logs.map(({ message }) => message).filter((message) => message.includes("é"));
  assert.deepEqual(
    shown,
    lines.map((_, at) => long(at).slice(0, 65_536).replace("\u0000", "")),
  );
});

async function namesIn(tar: Buffer): Promise<string[]> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-context-"));
  try {
    const file = path.join(directory, "context.tar");
    await writeFile(file, tar);
    const names: string[] = [];
    await list({ file, onReadEntry: ({ path: name }) => names.push(name) });
    return names;
  } finally {
    await rm(directory, { recursive: true });
  }
}
