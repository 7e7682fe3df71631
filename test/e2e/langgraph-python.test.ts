import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import type { Client } from "../../src/client/client.ts";
import type { Revision } from "../../src/contract/revisions/revision.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startTestServer } from "../support/server.ts";

/** Longer than the slowest step, a cold install of 77 packages on a loaded machine. Not a measurement. */
const timeoutMs = 550_000;

const directory = path.join(import.meta.dirname, "../../templates/langgraph-python-hello");

test("deploys, updates and deletes a Python agent from git", async (context) => {
  await using pierhead = await startTestServer();
  await using repository = await createAgentRepository(await filesOf(directory));
  const { client } = pierhead;
  const made = await client.createDeployment({
    body: {
      name: "python",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
      secrets: [{ name: "GREETING", value: "Good day" }],
    },
  });
  const ids = { deployment_id: made.id };
  const first = await settled(client, ids, made.latest_revision_id);
  if (/The agent needs Python|without venv/.test(first.status_message ?? "")) {
    return context.skip("SKIPPED langgraph-python e2e: Python 3.11 or newer with venv is missing");
  }
  assert.equal(first.status, "DEPLOYED", first.status_message ?? "");
  const { url, image_version: version } = await client.getDeployment(ids);
  assert.match(version ?? "", /^0\.\d+\.\d+$/);
  const agent = langgraph(url as string);
  const thread = (await agent.post("/threads", {})).thread_id as string;
  const deploy = async (files: Record<string, string>) => {
    await repository.commit(files);
    const patched = await client.patchDeployment({ ...ids, body: { source_revision_config: { repo_ref: "main" } } });
    return settled(client, ids, patched.latest_revision_id);
  };

  await context.test("answers a run through the gateway and streams its steps", async () => {
    assert.match(await agent.ask(thread, "Hello"), /^Hello! I am a LangGraph agent in Python/);
    const response = await agent.open(`/threads/${thread}/runs/stream`, {
      ...run("why?"),
      stream_mode: ["custom", "updates"],
    });
    assert.match(response.headers.get("content-type") ?? "", /^text\/event-stream/);
    const events = await response.text();
    assert.match(events, /event: custom\s+data: \{"event":"understood","kind":"question"\}/);
    assert.match(events, /event: updates\s+data: \{"reply"/);
  });

  await context.test("completes a stream that is open while the agent is updated", async () => {
    const code = await readFile(path.join(directory, "src/hello_agent/agent.py"), "utf8");
    const slow = code
      .replace("from langchain_core", "import asyncio\nimport os\n\nfrom langchain_core")
      .replace("def reply(state: State):", "async def reply(state: State):\n    await asyncio.sleep(3)")
      .replace('"Hello! I am', 'os.environ["GREETING"] + "! I am');
    assert.equal((await deploy({ "src/hello_agent/agent.py": slow })).status, "DEPLOYED");
    const streaming = agent.open(`/threads/${thread}/runs/stream`, { ...run("slow words"), stream_mode: ["updates"] });
    const stream = await streaming;
    const [events, revision] = await Promise.all([
      stream.text(),
      deploy({ "src/hello_agent/agent.py": `${slow}\n# later\n` }),
    ]);
    assert.match(events, /event: updates\s+data: \{"reply"/);
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    const { logs } = await client.getRevisionLogs({ ...ids, revision_id: revision.id, type: "build", limit: 1000 });
    assert.ok(logs.some(({ message }) => /reusing the environment of an earlier build/.test(message)));
  });

  await context.test("the new code gets the deployment's secrets and keeps the thread", async () => {
    assert.match(await agent.ask(thread, "hello"), /^Good day! I am a LangGraph agent in Python/);
    assert.match(await agent.ask(thread, "one more"), /your message number 5 in this thread/);
  });

  await context.test("reports the import error of a graph while the old revision keeps serving", async () => {
    const revision = await deploy({ "src/hello_agent/understand.py": "import no_such_module_at_all\n" });
    assert.equal(revision.status, "DEPLOY_FAILED");
    assert.match(revision.status_message ?? "", /No module named 'no_such_module_at_all'/);
    assert.match(await agent.ask(thread, "hello"), /^Good day!/);
  });

  await context.test(
    "fails the build with advice for a missing Python version and for graphs in two languages",
    async () => {
      const config = { dependencies: ["."], graphs: { agent: "./src/hello_agent/agent.py:graph" } };
      const old = await deploy({ "langgraph.json": JSON.stringify({ ...config, python_version: "3.99" }) });
      assert.equal(old.status, "BUILD_FAILED");
      assert.match(old.status_message ?? "", /needs Python 3\.99 \(python_version\)/);
      const graphs = { ...config.graphs, other: "./other.ts:graph" };
      const mixed = await deploy({ "langgraph.json": JSON.stringify({ ...config, graphs }), "other.ts": "" });
      assert.equal(mixed.status, "BUILD_FAILED");
      assert.match(mixed.status_message ?? "", /one agent server without an image runs one language/);
      assert.match(await agent.ask(thread, "hello"), /^Good day!/);
    },
  );

  await context.test("leaves no files behind after a delete", async () => {
    await client.deleteDeployment(ids);
    await client.waitForDeletion(ids, { timeoutMs });
    for (const place of ["replicas", "state", "artifacts", "builds"]) {
      assert.deepEqual(await readdir(path.join(pierhead.dataDir, place)).catch(() => []), [], place);
    }
  });
});

const run = (text: string) => ({ assistant_id: "agent", input: { messages: [{ role: "user", content: text }] } });

function settled(client: Client, ids: { deployment_id: string }, revisionId: string | null): Promise<Revision> {
  assert.ok(revisionId);
  return client.waitForRevision({ ...ids, revision_id: revisionId }, { timeoutMs });
}

function langgraph(url: string) {
  const open = async (pathname: string, body: object) => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(url + pathname, { method: "POST", headers, body: JSON.stringify(body) });
    assert.equal(response.status, 200, `${pathname}: ${response.status}`);
    return response;
  };
  // biome-ignore lint/suspicious/noExplicitAny: the agent's own API, of which the test reads a few fields.
  const post = async (pathname: string, body: object): Promise<any> => (await open(pathname, body)).json();
  return {
    open,
    post,
    async ask(thread: string, content: string): Promise<string> {
      return (await post(`/threads/${thread}/runs/wait`, run(content))).messages.at(-1).content;
    },
  };
}

/** Returns the files of the template by relative path, for a commit. */
async function filesOf(root: string): Promise<Record<string, string>> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  const read = files.map(async (file) => [path.relative(root, file), await readFile(file, "utf8")] as const);
  return Object.fromEntries(await Promise.all(read));
}
