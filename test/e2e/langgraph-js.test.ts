import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../../src/client/client.ts";
import type { Revision } from "../../src/contract/revisions/revision.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startTestServer } from "../support/server.ts";

/** Longer than the slowest step, a cold `npm install` of the agent server on a loaded machine. Not a measurement. */
const timeoutMs = 400_000;

const canary = "canary-7d1f";

const example = path.resolve("examples/hello-agent");

test("deploys, replaces, rolls back and deletes the real agent server from git", async (context) => {
  await using pierhead = await startTestServer();
  const graphs = { agent: "./src/agent.ts:graph", slow: "./src/slow.ts:graph", three: "./src/three.ts:graph" };
  const config = { node_version: "24", graphs };
  await using repository = await createAgentRepository({
    ...(await filesOf(example)),
    "langgraph.json": JSON.stringify(config),
    "src/slow.ts": slowGraph,
    "src/three.ts": threeSteps,
  });
  const { client } = pierhead;

  const made = await client.createDeployment({
    body: {
      name: "hello",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
      secrets: [{ name: "GREETING", value: canary }],
    },
  });
  const ids = { deployment_id: made.id };
  const first = await settled(client, ids, made.latest_revision_id);
  assert.equal(first.status, "DEPLOYED", first.status_message ?? "");
  assert.equal(first.rollout, "handover");
  const { url, image_version: version } = await client.getDeployment(ids);
  assert.ok(url);
  assert.match(version ?? "", /^\d+\.\d+\.\d+/);
  const agent = langgraph(url);

  const thread = await agent.post("/threads", {});
  await agent.post(`/threads/${thread.thread_id}/runs/wait`, run("remember me"));
  const before = await agent.get(`/threads/${thread.thread_id}/state`);
  assert.ok(before.values.messages.length >= 2, JSON.stringify(before.values));

  await context.test("passes the stream of a run through without buffering and names the revision", async () => {
    const other = await agent.post("/threads", {});
    const response = await fetch(`${url}/threads/${other.thread_id}/runs/stream`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...run("stream"), assistant_id: "slow", stream_mode: ["updates"] }),
    });
    assert.equal(response.headers.get("content-type")?.split(";")[0], "text/event-stream");
    assert.equal(response.headers.get("x-pierhead-revision"), first.id);
    const seen: { text: string; atMs: number }[] = [];
    for await (const chunk of response.body as ReadableStream<Uint8Array>) {
      seen.push({ text: Buffer.from(chunk).toString(), atMs: performance.now() });
    }
    // The second node sleeps for 4 s after the update of the first one. If the gateway buffered, both would arrive together.
    const at = (node: string) => seen.find(({ text }) => text.includes(`"${node}"`))?.atMs ?? Number.NaN;
    assert.ok(at("second") - at("first") > 500, JSON.stringify(seen));
  });

  await context.test("keeps the whole history of threads while runs without a thread use the same graph", async () => {
    const input = { assistant_id: "three", input: {} };
    for (let round = 0; round < 10; round += 1) {
      const threads = Array.from({ length: 5 }, async () => (await agent.post("/threads", {})).thread_id as string);
      const ids = await Promise.all(threads);
      const waits = ids.flatMap((id) => [
        agent.post(`/threads/${id}/runs/wait`, input),
        agent.post("/runs/wait", input),
      ]);
      await Promise.all(waits);
      const histories = await Promise.all(ids.map((id) => agent.get(`/threads/${id}/history?limit=20`)));
      const lengths = histories.map((history) => history.length);
      assert.deepEqual(lengths, Array(5).fill(5), `round ${round}`);
    }
  });

  await context.test("replaces the server on a PATCH without failing a request or a stream", async () => {
    const threads = (await agent.post("/threads", {})).thread_id as string;
    const load = startLoad(url, threads);
    await load.atLeast(20);
    await repository.commit({ "CHANGE.md": "a second version" });
    const patched = await client.patchDeployment({ ...ids, body: { source_revision_config: { repo_ref: "main" } } });
    assert.notEqual(patched.latest_revision_id, first.id);
    const second = await settled(client, ids, patched.latest_revision_id);
    assert.equal(second.status, "DEPLOYED", second.status_message ?? "");
    await load.atLeast(20);
    const { requests, streams, failures } = await load.stop();
    context.diagnostic(`${requests} requests and ${streams} streamed runs during the rollout`);
    assert.deepEqual(failures, []);
    assert.ok(requests > 40 && streams > 1);
    const after = await agent.get(`/threads/${thread.thread_id}/state`);
    assert.deepEqual(
      after.values.messages.slice(0, 2),
      before.values.messages.slice(0, 2),
      "the thread must survive the update",
    );
    assert.equal((await client.getDeployment(ids)).active_revision_id, second.id);
  });

  await context.test(
    "fails the build of a broken commit with the reason while the old revision keeps serving",
    async () => {
      const serving = (await client.getDeployment(ids)).active_revision_id;
      await repository.commit({ "langgraph.json": JSON.stringify({ graphs: { agent: "./src/missing.ts:graph" } }) });
      const patched = await client.patchDeployment({ ...ids, body: { source_revision_config: { repo_ref: "main" } } });
      const broken = await settled(client, ids, patched.latest_revision_id);
      assert.equal(broken.status, "BUILD_FAILED");
      assert.match(broken.status_message ?? "", /missing\.ts/);
      const now = await client.getDeployment(ids);
      assert.equal(now.active_revision_id, serving);
      assert.equal(now.status, "READY");
      assert.equal((await fetch(`${url}/ok`)).headers.get("x-pierhead-revision"), serving);
    },
  );

  await context.test("rolls back to the artifact of the first revision without a build", async () => {
    const redeployed = await client.redeployRevision({ ...ids, revision_id: first.id });
    const again = await settled(client, ids, redeployed.latest_revision_id);
    assert.equal(again.status, "DEPLOYED", again.status_message ?? "");
    const log = await client.getRevisionLogs({ ...ids, revision_id: again.id, type: "build" });
    assert.deepEqual(
      log.logs.map(({ message }) => message),
      ["This source was built before: reusing its artifact."],
    );
    const after = await agent.get(`/threads/${thread.thread_id}/state`);
    assert.ok(after.values.messages.length >= 2);
  });

  await context.test("returns the agent's log lines without secrets", async () => {
    const { logs } = await client.getDeploymentLogs({ ...ids, type: "deploy", limit: 1000 });
    assert.ok(logs.length > 0);
    assert.ok(!JSON.stringify(logs).includes(canary));
  });

  await context.test("answers 404 after a delete and leaves no files behind", async () => {
    await client.deleteDeployment(ids);
    await client.waitForDeletion(ids, { timeoutMs });
    assert.equal((await fetch(`${url}/ok`)).status, 404);
    for (const directory of ["replicas", "state", "artifacts", "builds"]) {
      const left = await readdir(path.join(pierhead.dataDir, directory)).catch(() => []);
      assert.deepEqual(left, [], directory);
    }
  });
});

/** A graph with two nodes, of which the second takes 4 s. */
const slowGraph = `
import { END, MessagesValue, START, StateGraph, StateSchema } from "@langchain/langgraph";
const State = new StateSchema({ messages: MessagesValue });
export const graph = new StateGraph(State)
  .addNode("first", () => ({ messages: [] }))
  .addNode("second", async () => { await new Promise((resolve) => setTimeout(resolve, 4000)); return { messages: [] }; })
  .addEdge(START, "first").addEdge("first", "second").addEdge("second", END)
  .compile();
`;

/**
 * A graph with three nodes. A run of it makes five checkpoints: of the input, of its start, and of each node. Like tracing
 * libraries it wraps a method, whose wait makes runs overlap after they were given the graph.
 */
const threeSteps = `
import { END, MessagesValue, START, StateGraph, StateSchema } from "@langchain/langgraph";
const sleep = () => new Promise((resolve) => setTimeout(resolve, 50));
const step = () => ({ messages: [] });
export const graph: any = new StateGraph(new StateSchema({ messages: MessagesValue }))
  .addNode("one", step).addNode("two", step).addNode("three", step)
  .addEdge(START, "one").addEdge("one", "two").addEdge("two", "three").addEdge("three", END)
  .compile();
const { streamEvents } = graph;
graph.streamEvents = async function* (...input: any[]) { await sleep(); yield* streamEvents.apply(this, input); };
`;

const run = (text: string) => ({
  assistant_id: "agent",
  input: { messages: [{ role: "user", content: text }] },
  multitask_strategy: "enqueue",
});

function settled(client: Client, ids: { deployment_id: string }, revisionId: string | null): Promise<Revision> {
  assert.ok(revisionId);
  return client.waitForRevision({ ...ids, revision_id: revisionId }, { timeoutMs });
}

/** Returns the files of the example by relative path, for a commit. */
async function filesOf(directory: string): Promise<Record<string, string>> {
  const names = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"));
  const read = files.map(async (entry) => {
    const file = path.join(entry.parentPath, entry.name);
    return [path.relative(directory, file), await readFile(file, "utf8")] as const;
  });
  return Object.fromEntries(await Promise.all(read));
}

function langgraph(url: string) {
  // biome-ignore lint/suspicious/noExplicitAny: the agent's own API, of which the test reads a few fields.
  const call = async (method: string, pathname: string, body?: unknown): Promise<any> => {
    const response = await fetch(url + pathname, {
      method,
      headers: { "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    assert.equal(response.status, 200, `${method} ${pathname}: ${response.status}`);
    return response.json();
  };
  return {
    get: (pathname: string) => call("GET", pathname),
    post: (pathname: string, body: unknown) => call("POST", pathname, body),
  };
}

/** Starts clients that send short requests and stream runs in a loop. A stream must deliver the values of its run. */
function startLoad(url: string, thread: string) {
  const stopping = new AbortController();
  const failures: string[] = [];
  const counts = { requests: 0, streams: 0 };
  const repeat = async (act: () => Promise<void>) => {
    while (!stopping.signal.aborted) {
      await act().catch((error: unknown) => failures.push(String(error)));
      await sleep(20);
    }
  };
  const request = async () => {
    const response = await fetch(`${url}/info`);
    await response.text();
    if (response.status === 200) counts.requests += 1;
    else failures.push(`GET /info: ${response.status}`);
  };
  const stream = async () => {
    const response = await fetch(`${url}/threads/${thread}/runs/stream`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...run("under load"), stream_mode: ["values"] }),
    });
    const text = await response.text();
    if (response.status === 200 && text.includes("event: values")) counts.streams += 1;
    else failures.push(`stream: ${response.status} ${text.slice(0, 200)}`);
  };
  const clients = [repeat(request), repeat(request), repeat(request), repeat(stream)];
  return {
    /** Waits for this many more requests and one more stream, or for a failure. */
    async atLeast(more: number) {
      const [requests, streams] = [counts.requests + more, counts.streams + 1];
      while ((counts.requests < requests || counts.streams < streams) && failures.length === 0) await sleep(20);
    },
    async stop() {
      stopping.abort();
      await Promise.all(clients);
      return { ...counts, failures };
    },
  };
}
