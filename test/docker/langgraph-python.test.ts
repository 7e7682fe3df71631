import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startTestServer } from "../support/server.ts";
import { makeDatabaseImages } from "./database-images.ts";
import { startServer } from "./database-world.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";
import { assertNoRuns } from "./no-runs.ts";
import { importNewerPythonImage, importPythonImage, newerPythonImage, pythonImage } from "./python-base-image.ts";

const template = path.resolve("templates/langgraph-python-hello");
const files = [
  "langgraph.json",
  "pyproject.toml",
  "src/hello_agent/__init__.py",
  "src/hello_agent/agent.py",
  "src/hello_agent/understand.py",
];

describe("docker: LangGraph agents in Python", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
    await importPythonImage(engine);
  });
  after(() => end?.());

  test("an agent runs in a container and keeps its threads when a new revision takes over", async () => {
    await using pierhead = await startTestServer({
      PIERHEAD_COMPUTE: "docker",
      DOCKER_HOST: engine.host,
      PIERHEAD_PYTHON_IMAGE: pythonImage,
    });
    const { client } = pierhead;
    const source: Record<string, string> = await readSource();
    await using repository = await createAgentRepository(source);
    const { id, latest_revision_id: firstId } = await client.createDeployment({
      body: {
        name: "agent",
        source: "github",
        source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
        source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
      },
    });
    const settled = async (revisionId: string | null) => {
      const ids = { deployment_id: id, revision_id: revisionId as string };
      const revision = await client.waitForRevision(ids, { timeoutMs: 500_000 });
      assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
      return revision;
    };
    assert.equal((await settled(firstId)).rollout, "handover");
    const { url } = await client.getDeployment({ deployment_id: id });
    const post = async (target: string, body: object) => {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`${url}${target}`, { method: "POST", headers, body: JSON.stringify(body) });
      return (await answer.json()) as { thread_id: string; messages: { content: string }[] };
    };
    const { thread_id: threadId } = await post("/threads", {});
    const say = async (content: string) => {
      const input = { messages: [{ role: "user", content }] };
      const { messages } = await post(`/threads/${threadId}/runs/wait`, { assistant_id: "agent", input });
      return messages.at(-1)?.content ?? "";
    };
    assert.match(await say("Hello"), /^Hello! I am a LangGraph agent in Python/);
    const code = source["src/hello_agent/agent.py"] ?? "";
    await repository.commit({ "src/hello_agent/agent.py": code.replaceAll("Hello! I am", "Good day! I am") });
    const body = { source_revision_config: { repo_ref: "main" } };
    const next = await settled((await client.patchDeployment({ deployment_id: id, body })).latest_revision_id);
    const of = { deployment_id: id, revision_id: next.id };
    const { logs } = await client.readBuildLogs({ ...of, body: { limit: 500, order: "asc" } });
    const lines = logs.map(({ message }) => message);
    const installed = lines.findIndex((line) => /pip install --dependencies-of/.test(line));
    assert.equal(lines[installed + 1]?.trim(), "unchanged since an earlier build", lines.join("\n"));
    assert.match(await say("hello"), /^Good day! I am a LangGraph agent in Python/);
    assert.match(await say("one more"), /your message number 3 in this thread/);
  });

  test("an agent moves from memory to Aegra, runs as two containers, and keeps its threads", async () => {
    await makeDatabaseImages(engine);
    await importNewerPythonImage(engine);
    await using pierhead = await startServer(engine, { PIERHEAD_PYTHON_IMAGE: newerPythonImage });
    const { client } = pierhead;
    await using repository = await createAgentRepository(await readSource());
    const made = await client.createDeployment({
      body: {
        name: "durable-python",
        source: "github",
        source_config: { repo_url: repository.url, deployment_type: "prod", build_on_push: false },
        source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
      },
    });
    const ids = { deployment_id: made.id };
    const settled = async (revisionId: string | null) => {
      const of = { ...ids, revision_id: String(revisionId) };
      const revision = await client.waitForRevision(of, { timeoutMs: 500_000 });
      assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
      return [revision.engine, revision.engine_because, revision.rollout];
    };
    assert.deepEqual(await settled(made.latest_revision_id), ["memory", "default", "handover"]);
    const { url } = await client.getDeployment(ids);
    const call = async (target: string, body?: object) => {
      const headers = { "content-type": "application/json" };
      const method = body === undefined ? "GET" : "POST";
      const answer = await fetch(`${url}${target}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
      assert.equal(answer.status, 200, target);
      return (await answer.json()) as { thread_id: string; messages: { content: string }[]; queue: object };
    };
    const { thread_id } = await call("/threads", {});
    const say = async (content: string) => {
      const input = { messages: [{ role: "user", content }] };
      const { messages } = await call(`/threads/${thread_id}/runs/wait`, { assistant_id: "agent", input });
      return messages.at(-1)?.content ?? "";
    };
    await say("Hello");
    const changed = await client.patchDeployment({ ...ids, body: { source_config: { engine: "aegra" } } });
    assert.deepEqual(await settled(changed.latest_revision_id), ["aegra", "deployment", "rolling"]);
    assert.match(await say("again"), /your message number 2 in this thread/);
    const scaled = await client.scaleDeployment({ ...ids, body: { min_replicas: 2 } });
    assert.deepEqual(await settled(scaled.latest_revision_id), ["aegra", "deployment", "rolling"]);
    const { replicas } = await client.listReplicas(ids);
    assert.equal(replicas.filter(({ phase }) => phase === "ready").length, 2);
    assert.match(await say("once more"), /your message number 3 in this thread/);
    const { queue } = await call("/metrics?format=json");
    assertNoRuns(queue);
  });
});

const readSource = async () =>
  Object.fromEntries(
    await Promise.all(files.map(async (name) => [name, await readFile(path.join(template, name), "utf8")])),
  );
