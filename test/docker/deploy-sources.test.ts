import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine.ts";
import { createAgentRepository } from "../agent-repository.ts";
import { eventually } from "../eventually.ts";
import { startTestServer, type TestServer } from "../server.ts";
import { nodeImage } from "./base-image.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

const agent = (version: string) => ({
  "pierhead.json": JSON.stringify({ start: ["node", "server.js"] }),
  "server.js": `
    const http = require("node:http");
    http.createServer((_, response) => response.end(${JSON.stringify(version)})).listen(process.env.PORT, process.env.HOST);
    process.on("SIGTERM", () => process.exit(0));
  `,
});

describe("docker: sources are deployed", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
  });
  after(() => end?.());

  const startServer = () =>
    startTestServer({ PIERHEAD_COMPUTE: "docker", DOCKER_HOST: engine.host, PIERHEAD_NODE_IMAGE: nodeImage });
  const settled = (client: TestServer["client"], id: string, revisionId: string | null) =>
    client.waitForRevision({ deployment_id: id, revision_id: revisionId as string }, { timeoutMs: 400_000 });
  const deployGit = async ({ client }: TestServer, repoUrl: string, configPath: string) => {
    const made = await client.createDeployment({
      body: {
        name: "agent",
        source: "github",
        source_config: { repo_url: repoUrl, deployment_type: "dev", build_on_push: false },
        source_revision_config: { repo_ref: "main", langgraph_config_path: configPath },
      },
    });
    return { id: made.id, first: await settled(client, made.id, made.latest_revision_id) };
  };
  const update = async ({ client }: TestServer, id: string) => {
    const body = { source_revision_config: { repo_ref: "main" } };
    const { latest_revision_id: revisionId } = await client.patchDeployment({ deployment_id: id, body });
    return settled(client, id, revisionId);
  };
  const urlOf = async ({ client }: TestServer, id: string) => (await client.getDeployment({ deployment_id: id })).url;
  const ask = async (pierhead: TestServer, id: string) =>
    fetch(`${await urlOf(pierhead, id)}/`).then((answer) => answer.text());

  test("from git into a container; the next commit; one that cannot be built; back to the first without a build", async () => {
    await using pierhead = await startServer();
    await using repository = await createAgentRepository(agent("one"));
    const { id, first } = await deployGit(pierhead, repository.url, "pierhead.json");
    assert.equal(first.status, "DEPLOYED", first.status_message ?? "");
    assert.equal(await ask(pierhead, id), "one");
    await repository.commit(agent("two"));
    assert.equal((await update(pierhead, id)).status, "DEPLOYED");
    assert.equal(await ask(pierhead, id), "two");
    await repository.commit({
      "pierhead.json": JSON.stringify({ start: ["node"], build: [["node", "-e", "process.exit(9)"]] }),
    });
    const failed = await update(pierhead, id);
    assert.equal(failed.status, "BUILD_FAILED");
    assert.match(failed.status_message ?? "", /exit code 9/);
    assert.equal(await ask(pierhead, id), "two");
    const again = await pierhead.client.redeployRevision({ deployment_id: id, revision_id: first.id });
    assert.equal((await settled(pierhead.client, id, again.latest_revision_id)).status, "DEPLOYED");
    assert.equal(await ask(pierhead, id), "one");
  });

  test("a LangGraph.js agent runs in a container, and keeps its threads when a new revision takes over", async () => {
    await using pierhead = await startServer();
    await using repository = await createAgentRepository(await filesOf(path.resolve("examples/hello-agent")));
    const { id, first } = await deployGit(pierhead, repository.url, "langgraph.json");
    assert.equal(first.status, "DEPLOYED", first.status_message ?? "");
    assert.equal(first.rollout, "handover");
    const call = async (method: string, target: string, body?: object) => {
      const headers = { "content-type": "application/json" };
      const options = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
      const answer = await fetch(`${await urlOf(pierhead, id)}${target}`, options);
      return (await answer.json()) as { thread_id: string; values: { messages: unknown[] } };
    };
    const { thread_id: threadId } = await call("POST", "/threads", {});
    const input = { messages: [{ role: "user", content: "hello" }] };
    await call("POST", `/threads/${threadId}/runs/wait`, { assistant_id: "agent", input });
    const { values } = await call("GET", `/threads/${threadId}/state`);
    assert.ok(values.messages.length >= 2, JSON.stringify(values));
    await repository.commit({ "CHANGE.md": "a second version" });
    const second = await update(pierhead, id);
    assert.equal(second.status, "DEPLOYED", second.status_message ?? "");
    const ids = { deployment_id: id, revision_id: second.id };
    const { logs } = await pierhead.client.readBuildLogs({ ...ids, body: { limit: 500 } });
    const lines = logs.map(({ message }) => message);
    assert.equal(lines[lines.indexOf("$ npm ci") + 1], "  unchanged since an earlier build", "only code has changed");
    assert.deepEqual((await call("GET", `/threads/${threadId}/state`)).values, values);
    const volumes = () =>
      engine.call<{ Volumes: unknown[] | null }>("GET", "/volumes", {
        query: { filters: { label: [`pierhead.dev/deployment=${id}`] } },
      });
    assert.equal((await volumes()).Volumes?.length, 1);
    await pierhead.client.deleteDeployment({ deployment_id: id });
    await eventually(volumes, ({ Volumes }) => (Volumes ?? []).length === 0, { what: "its state goes with it" });
  });
});

async function filesOf(directory: string): Promise<Record<string, string>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"));
  const read = files.map(async ({ parentPath, name }) => {
    const file = path.join(parentPath, name);
    return [path.relative(directory, file), await readFile(file, "utf8")];
  });
  return Object.fromEntries(await Promise.all(read));
}
