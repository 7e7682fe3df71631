import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import type { TestServer } from "../support/server.ts";
import { nodeImage } from "./base-image.ts";
import { databaseImagesSkipped, makeDatabaseImages } from "./database-images.ts";
import { startServer } from "./database-world.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";
import { assertNoRuns } from "./no-runs.ts";

const example = "examples/hello-agent";

/** Longer than a cold install of the server and its packages on a loaded machine. Not a measurement. */
const timeoutMs = 400_000;

describe("docker: LangGraph.js on PostgreSQL", { skip: dockerSkipped || databaseImagesSkipped || false }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  let pierhead: TestServer;
  before(async () => {
    ({ engine, end } = await engineForTests());
    await makeDatabaseImages(engine);
    pierhead = await startServer(engine, { PIERHEAD_NODE_IMAGE: nodeImage });
  });
  after(async () => {
    await pierhead?.[Symbol.asyncDispose]();
    await end?.();
  });

  const create = async (
    name: string,
    files: Record<string, string>,
    settings: { engine?: "file"; install_command?: string } = {},
  ) => {
    const { client } = pierhead;
    const repository = await createAgentRepository(files);
    const made = await client.createDeployment({
      body: {
        ...{ name, source: "github" },
        source_config: { repo_url: repository.url, deployment_type: "prod", build_on_push: false, ...settings },
        source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
      },
    });
    const ids = { deployment_id: made.id };
    const settled = async (revisionId: string | null) => {
      const revision = await client.waitForRevision({ ...ids, revision_id: String(revisionId) }, { timeoutMs });
      assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
      return [revision.engine, revision.engine_because, revision.rollout];
    };
    const log = async () => {
      const { logs } = await client.readBuildLogs({
        ...ids,
        revision_id: String(made.latest_revision_id),
        body: { limit: 500 },
      });
      return logs.map(({ message }) => message).join("\n");
    };
    return { repository, ids, settled, log, first: made.latest_revision_id };
  };

  test("a new agent runs on its PostgreSQL", async () => {
    const fitting = await create("fitting", await exampleFiles());
    await using _repository = fitting.repository;
    assert.deepEqual(await fitting.settled(fitting.first), ["postgres", "default", "rolling"]);
    const { url } = await pierhead.client.getDeployment(fitting.ids);
    const input = { messages: [{ role: "user", content: "What is 6 * 7?" }] };
    const answer = await fetch(`${url}/runs/wait`, {
      ...{ method: "POST", headers: { "content-type": "application/json" } },
      body: JSON.stringify({ assistant_id: "agent", input }),
    });
    assert.match(await answer.text(), /6 \* 7 = 42/);
  });

  test("a new agent whose packages turn out not to fit runs on files, and the build log says why", async () => {
    // The source does not name the packages that the command installs.
    const command = "npm install --no-save @langchain/langgraph@0.4.9 @langchain/core@0.3.80";
    const other = await create("other", oldFiles, { install_command: command });
    await using _other = other.repository;
    assert.deepEqual(await other.settled(other.first), ["file", "packages", "handover"], await other.log());
    assert.match(await other.log(), /Engine: file, although .* because its server does not work with the packages/);
  });

  test("an agent moves from files to its PostgreSQL, runs as two containers, and keeps its threads", async () => {
    const { client } = pierhead;
    const { repository, ids, settled, first } = await create("durable", await exampleFiles(), { engine: "file" });
    await using _repository = repository;
    assert.deepEqual(await settled(first), ["file", "deployment", "handover"]);
    const { url } = await client.getDeployment(ids);
    const call = async (method: string, path: string, body?: object) => {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`${url}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
      assert.equal(answer.status, 200, path);
      return (await answer.json()) as { thread_id: string; values: object; queue: object };
    };
    const { thread_id } = await call("POST", "/threads", {});
    const input = { messages: [{ role: "user", content: "hello" }] };
    await call("POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "agent", input });
    const { values } = await call("GET", `/threads/${thread_id}/state`);

    const changed = await client.patchDeployment({ ...ids, body: { source_config: { engine: "postgres" } } });
    assert.deepEqual(await settled(changed.latest_revision_id), ["postgres", "deployment", "rolling"]);
    assert.deepEqual((await call("GET", `/threads/${thread_id}/state`)).values, values, "the files were copied");
    const scaled = await client.scaleDeployment({ ...ids, body: { min_replicas: 2 } });
    assert.deepEqual(await settled(scaled.latest_revision_id), ["postgres", "deployment", "rolling"]);
    const { replicas } = await client.listReplicas(ids);
    assert.equal(replicas.filter(({ phase }) => phase === "ready").length, 2);
    await call("POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "agent", input });
    const { queue } = await call("GET", "/metrics?format=json");
    assertNoRuns(queue);
  });
});

async function exampleFiles(): Promise<Record<string, string>> {
  const names = [
    "package.json",
    "package-lock.json",
    "langgraph.json",
    "src/agent.ts",
    "src/calculate.ts",
    "src/understand.ts",
  ];
  const read = names.map(async (name) => [name, await readFile(`${example}/${name}`, "utf8")] as const);
  return Object.fromEntries(await Promise.all(read));
}

const oldFiles = {
  "package.json": JSON.stringify({ name: "old", private: true, type: "module" }),
  "langgraph.json": JSON.stringify({ graphs: { agent: "./agent.js:graph" } }),
  "agent.js": `
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
const answer = () => ({ messages: [{ role: "assistant", content: "hello" }] });
export const graph = new StateGraph(MessagesAnnotation)
  .addNode("answer", answer).addEdge(START, "answer").addEdge("answer", END).compile();
`,
};
