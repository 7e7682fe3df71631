import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { startAnswering } from "../client/answering.ts";
import { createDirectory, runCli } from "./run-cli.ts";

const event = (type: string, data: unknown) => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
const threadId = "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a99";
const final = {
  messages: [
    { type: "human", content: "hello" },
    { type: "ai", content: "Hi\u001b[2J there" },
  ],
};

/** An agent with one assistant, which asks for the key `good` when it is closed. */
async function startAgent({ isClosed = false, graphs = ["agent"], run = event("values", final) } = {}) {
  return startAnswering(({ url, headers }) => {
    if (isClosed && headers["x-api-key"] !== "good") return { status: 401, body: { detail: "Unauthorized" } };
    const assistants = graphs.map((graph) => ({ assistant_id: `${graph}-id`, graph_id: graph, name: graph }));
    if (url.endsWith("/assistants/search")) return { status: 200, body: assistants };
    if (url.endsWith("/threads")) return { status: 200, body: { thread_id: threadId } };
    if (url.endsWith("/threads/search"))
      return { status: 200, body: [{ thread_id: threadId, status: "idle", values: final }] };
    if (url.endsWith("/runs/stream"))
      return { status: 200, body: run, headers: { "content-type": "text/event-stream" } };
    return { status: 404, body: { detail: "Not Found" } };
  });
}

const startControlPlane = (agentUrl: string | undefined) =>
  startAnswering(() => ({
    status: 200,
    body: { resources: [{ id: threadId, name: "support", url: agentUrl }], offset: 1 },
  }));

test("invoke finds the assistant, sends the message, and prints the answer without control sequences", async () => {
  const pieces = ["Hi", "\u001b", "[2J there"].map((content) =>
    event("messages", [{ type: "AIMessageChunk", content }, {}]),
  );
  await using agent = await startAgent({ run: pieces.join("") + event("values", final) });
  await using server = await startControlPlane(agent.url);
  const at = ["--url", server.url];
  const plain = await runCli(["invoke", "support", "hello", ...at]);
  assert.deepEqual([plain.code, plain.stdout], [0, "Hi there\n"], plain.stderr);
  assert.match(plain.stderr, new RegExp(`--thread ${threadId}`));
  const sent = agent.asked.find(({ url }) => url.endsWith("/runs/stream"));
  assert.deepEqual(JSON.parse(sent?.body ?? "").input, { messages: [{ role: "user", content: "hello" }] });

  const streamed = await runCli(["invoke", "support", "--stream", ...at], { stdin: "hello\n" });
  assert.equal(streamed.stdout, "Hi[2J there\n");
  const json = await runCli(["invoke", "support", "--input", '{"a": 1}', "--json", ...at]);
  assert.equal((JSON.parse(json.stdout) as { thread_id: string }).thread_id, threadId);
  assert.match((await runCli(["threads", "support", ...at])).stdout, /idle +- +Hi there/);
});

test("invoke shows why a run failed, and asks which of several assistants is meant", async () => {
  await using broken = await startAgent({ run: event("error", { error: "ValueError", message: "no model\u001b[2J" }) });
  await using server = await startControlPlane(broken.url);
  const failed = await runCli(["invoke", "support", "hello", "--url", server.url]);
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /The run failed in support.\n {2}ValueError: no model\n.*pierhead logs support/);

  await using several = await startAgent({ graphs: ["sales", "help"] });
  await using other = await startControlPlane(several.url);
  const unclear = await runCli(["invoke", "support", "hello", "--url", other.url]);
  assert.equal(unclear.code, 2);
  assert.match(unclear.stderr, /2 assistants: sales, help/);
  assert.equal((await runCli(["invoke", "support", "hello", "--assistant", "help", "--url", other.url])).code, 0);
});

test("invoke says when an answer was cut off, and where the run can be seen", async () => {
  await using agent = await startAgent({ run: ": heartbeat\n\n" });
  await using server = await startControlPlane(agent.url);
  const cut = await runCli(["invoke", "support", "hello", "--url", server.url]);
  assert.equal(cut.code, 1);
  assert.match(cut.stderr, new RegExp(`was cut off: it ended without a state.[^]*pierhead runs support ${threadId}`));
});

test("invoke of another server suggests an address that it has", async () => {
  await using agent = await startAnswering(({ url }) =>
    url === "/docs"
      ? { status: 200, body: "<title>Swagger UI</title>" }
      : { status: 404, body: { detail: "Not Found" } },
  );
  await using server = await startControlPlane(agent.url);
  const { code, stderr } = await runCli(["invoke", "support", "hello", "--url", server.url]);
  assert.equal(code, 1);
  assert.match(stderr, /does not speak the agent protocol/);
  assert.match(stderr, new RegExp(`→ Open ${agent.url}/docs$`, "m"));
});

test("an agent at another address gets the key only with --send-key", async () => {
  await using agent = await startAgent({ isClosed: true });
  await using server = await startControlPlane(agent.url);
  const env = { PIERHEAD_API_KEY: "good" };
  const invoke = ["invoke", "support", "hello", "--url", server.url];
  const refused = await runCli(invoke, { env });
  assert.equal(refused.code, 4);
  assert.match(refused.stderr, /another address.*\n.*--send-key/);
  assert.ok(agent.asked.every(({ headers }) => headers["x-api-key"] === undefined));
  assert.equal((await runCli([...invoke, "--send-key"], { env })).code, 0);
});

test("init copies a template into an empty directory and never changes one with files", async () => {
  await using empty = await createDirectory();
  const unclear = await runCli(["init"], { cwd: empty.directory });
  assert.equal(unclear.code, 2);
  assert.match(unclear.stderr, /langgraph-js-hello +Hello agent/);
  assert.match(unclear.stderr, /→ Begin with a template: pierhead init --template langgraph-js-chat\n/);
  const named = await runCli(["init", "my agent"], { cwd: empty.directory });
  assert.match(named.stderr, /^Error: .*my agent has no project/);
  const [, copied = ""] = /: pierhead (init 'my agent' --template [\w-]+)\n/.exec(named.stderr) ?? [];
  assert.match(named.stderr, /: pierhead deploy 'my agent'\n/);
  const words = copied.split(/ (?=--)| (?=')| (?=[\w-]+$)/).map((word) => word.replaceAll("'", ""));
  assert.equal((await runCli(words, { cwd: empty.directory })).code, 0, "the hint is a command that works");
  const made = await runCli(["init", "mine", "--template", "langgraph-js-hello"], { cwd: empty.directory });
  assert.equal(made.code, 0, made.stderr);
  assert.match(made.stdout, /langgraph.json: 1 graph/);
  assert.match(made.stderr, /pierhead deploy mine/);
  const files = await readdir(path.join(empty.directory, "mine"));
  assert.ok(files.includes("langgraph.json") && !files.includes("template.json"));
  const detected = await runCli(["detect", "mine", "--json"], { cwd: empty.directory });
  assert.equal(JSON.parse(detected.stdout).name, "mine", "a deploy has the name of the directory");
  assert.match((await runCli(["detect", "none"], { cwd: empty.directory })).stderr, /There is no directory .*none\./);
  const again = await runCli(["init", "mine", "--template", "node-server"], { cwd: empty.directory });
  assert.equal(again.code, 2);
  assert.match(
    (await runCli(["init"], { cwd: path.join(empty.directory, "mine") })).stderr,
    /can be deployed as it is/,
  );
});
