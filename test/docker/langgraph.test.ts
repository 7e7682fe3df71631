import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { publicBaseName } from "../../src/builds/image/base-image.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { findRegistryProgram } from "../../src/registry/registry-process.ts";
import { type ClientMachine, setUpClientMachine } from "../clients/client-machine.ts";
import { installNpmPackages, langgraphCliJs } from "../clients/install.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { nodeImage } from "./base-image.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

const example = "examples/hello-agent";

describe("docker: LangGraph.js agents", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  let machine: ClientMachine;
  before(async () => {
    ({ engine, end } = await engineForTests());
    const server = { PIERHEAD_COMPUTE: "docker", DOCKER_HOST: engine.host, PIERHEAD_NODE_IMAGE: nodeImage };
    machine = await setUpClientMachine(langgraphCliJs, example, { server });
  });
  after(async () => {
    await machine?.[Symbol.asyncDispose]();
    await end?.();
  });

  const settled = (id: string, revisionId: string | null) =>
    machine.pierhead.client.waitForRevision(
      { deployment_id: id, revision_id: revisionId as string },
      { timeoutMs: 400_000 },
    );
  const call = async (id: string, method: string, target: string, body?: object) => {
    const { url } = await machine.pierhead.client.getDeployment({ deployment_id: id });
    const headers = { "content-type": "application/json" };
    const options = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const answer = await fetch(`${url}${target}`, options);
    return (await answer.json()) as { thread_id: string; values: { messages: unknown[] }; messages: Message[] };
  };
  const say = async (id: string, content: string) => {
    const { thread_id: threadId } = await call(id, "POST", "/threads", {});
    const input = { messages: [{ role: "user", content }] };
    const { messages } = await call(id, "POST", `/threads/${threadId}/runs/wait`, { assistant_id: "agent", input });
    return { threadId, answer: messages.at(-1)?.content };
  };

  test("an agent runs in a container and keeps its threads when a new revision takes over", async () => {
    const { client } = machine.pierhead;
    await using repository = await createAgentRepository(await filesOf(path.resolve(example)));
    const { id, latest_revision_id: firstId } = await client.createDeployment({
      body: {
        name: "agent",
        source: "github",
        source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
        source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
      },
    });
    const first = await settled(id, firstId);
    assert.equal(first.status, "DEPLOYED", first.status_message ?? "");
    assert.equal(first.rollout, "handover");
    const { threadId } = await say(id, "hello");
    const { values } = await call(id, "GET", `/threads/${threadId}/state`);
    assert.ok(values.messages.length >= 2, JSON.stringify(values));
    await repository.commit({ "CHANGE.md": "a second version" });
    const body = { source_revision_config: { repo_ref: "main" } };
    const second = await settled(id, (await client.patchDeployment({ deployment_id: id, body })).latest_revision_id);
    assert.equal(second.status, "DEPLOYED", second.status_message ?? "");
    const ids = { deployment_id: id, revision_id: second.id };
    const { logs } = await client.readBuildLogs({ ...ids, body: { limit: 500 } });
    const lines = logs.map(({ message }) => message);
    assert.equal(lines[lines.indexOf("$ npm ci") + 1], "  unchanged since an earlier build", "only code has changed");
    assert.deepEqual((await call(id, "GET", `/threads/${threadId}/state`)).values, values);
    const volumes = () =>
      engine.call<{ Volumes: unknown[] | null }>("GET", "/volumes", {
        query: { filters: { label: [`pierhead.dev/deployment=${id}`] } },
      });
    assert.equal((await volumes()).Volumes?.length, 1);
    await client.deleteDeployment({ deployment_id: id });
    await eventually(volumes, ({ Volumes }) => (Volumes ?? []).length === 0, {
      what: "its state is deleted with the deployment",
    });
  });

  test("the public command builds an image locally, pushes it with a push token and deploys it", async (context) => {
    if (findRegistryProgram() === null)
      return context.skip("docker-registry (Debian: apt-get install docker-registry)");
    const missing = installNpmPackages();
    if (missing !== undefined) return context.skip(missing);
    // The previous test has built the base image.
    const how = ["--no-remote", "--no-pull", "--base-image", `${publicBaseName}:latest`, "--no-input", "--json"];
    const ended = await machine.run(["deploy", "--name", "pushed", ...how], { DOCKER_HOST: engine.host });
    assert.equal(ended.code, 0, ended.stdout + ended.stderr);
    const result = JSON.parse(ended.stdout.trim().split("\n").at(-1) ?? "") as Record<string, string>;
    assert.equal(result["status"], "succeeded", ended.stdout);
    const id = String(result["deployment_id"]);
    assert.equal((await say(id, "What is 6 * 7?")).answer, "6 * 7 = 42");
    const { client } = machine.pierhead;
    const { source, source_revision_config, active_revision_id } = await client.getDeployment({ deployment_id: id });
    const ids = { deployment_id: id, revision_id: active_revision_id as string };
    assert.equal((await client.getRevision(ids)).rollout, "handover", "its threads outlive it");
    assert.equal(source, "internal_docker");
    assert.match(source_revision_config.image_uri ?? "", new RegExp(`/r/${id}/pushed@sha256:[0-9a-f]{64}$`));
  });
});

interface Message {
  content: string;
}

async function filesOf(directory: string): Promise<Record<string, string>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"));
  const read = files.map(async ({ parentPath, name }) => {
    const file = path.join(parentPath, name);
    return [path.relative(directory, file), await readFile(file, "utf8")];
  });
  return Object.fromEntries(await Promise.all(read));
}
