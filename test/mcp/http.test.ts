import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { after, before, test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { type PackedServer, startPackedServer } from "../ship/packed.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";

/** The packed server, whose replicas are simulated, driven by the official client over streamable HTTP. */
let server: PackedServer;
before(async () => {
  server = await startPackedServer({ PIERHEAD_COMPUTE: "simulated" });
});
after(() => server[Symbol.asyncDispose]());

async function connect(apiKey: string, query = "") {
  const transport = new StreamableHTTPClientTransport(new URL(`${server.url}/mcp${query}`), {
    requestInit: { headers: { "x-api-key": apiKey } },
  });
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(transport);
  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const { content, isError } = await client.callTool({ name, arguments: args });
    const [{ text }] = content as unknown as [{ text: string }];
    // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
    return { isError: isError === true, text, value: isError ? null : (JSON.parse(text) as any) };
  };
  const toolNames = async () => (await client.listTools()).tools.map(({ name }) => name);
  return { client, call, toolNames };
}

const keyOf = async (role: "reader" | "caller") =>
  (await server.client.createApiKey({ body: { name: role, role } })).key;

test("a client deploys a repository, reads why it failed, repairs it, and rolls back after a confirmation", async () => {
  const build = [["node", "-e", "console.error('no compiler here'); process.exit(3)"]];
  await using repository = await createAgentRepository();
  const { client, call } = await connect(server.apiKey);
  const deploy = () => call("deploy", { name: "shop", git_url: repository.url, config_path: "pierhead.json" });
  const ended = async () => (await call("wait_for_deployment", { deployment: "shop" })).value;
  const first = await deploy();
  assert.equal(first.isError, false, first.text);
  assert.ok(first.value.url.startsWith(`${server.url}/d/shop-`), first.value.url);
  assert.equal((await ended()).succeeded, true);

  await repository.commit({ "pierhead.json": JSON.stringify({ build, start: ["node", "server.js"] }) });
  assert.equal((await call("set_variables", { deployment: "shop", variables: { TOKEN: "hunter2" } })).isError, false);
  assert.equal((await ended()).succeeded, true);
  const broken = await deploy();
  assert.equal(broken.isError, false, broken.text);
  const failed = await ended();
  assert.deepEqual([failed.succeeded, failed.revision.status], [false, "BUILD_FAILED"]);
  assert.match((await call("read_logs", { deployment: "shop", kind: "build" })).text, /no compiler here/);

  await repository.commit(nodeAgent("two"));
  assert.equal((await deploy()).isError, false);
  assert.equal((await ended()).succeeded, true);
  const unconfirmed = await call("rollback", { deployment: "shop" });
  const revisionId = /"revision_id":"(.*?)"/.exec(unconfirmed.text)?.[1];
  assert.ok(unconfirmed.isError && revisionId !== undefined, unconfirmed.text);
  const back = await call("rollback", { deployment: "shop", revision_id: revisionId, confirm: "shop" });
  assert.equal(back.isError, false, back.text);
  assert.equal((await ended()).succeeded, true);
  assert.doesNotMatch((await call("list_variables", { deployment: "shop" })).text, /hunter2/);
  assert.match((await call("deploy", { directory: "/etc" })).text, /cannot read your files/);
  await client.close();
});

test("each role sees the tools that it may use, and read-only mode those that change nothing", async () => {
  const all = await (await connect(server.apiKey)).toolNames();
  assert.ok(all.includes("deploy") && all.includes("why"));
  const reader = await connect(await keyOf("reader"));
  const reading = await reader.toolNames();
  assert.ok(reading.includes("list_deployments") && !reading.includes("deploy") && !reading.includes("why"));
  await assert.rejects(reader.call("delete_deployment", { deployment: "shop", confirm: "shop" }), /delete_deployment/);
  const readOnly = await (await connect(server.apiKey, "?read_only=true")).toolNames();
  assert.deepEqual(
    readOnly,
    all.filter((name) => reading.includes(name) || name === "why"),
  );
});

test("refuses a misspelled read-only mode instead of offering every tool", async () => {
  const headers = { "content-type": "application/json", "x-api-key": server.apiKey };
  const body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
  for (const query of ["readOnly=true", "readonly=1", "READ_ONLY=true", "read-only", "read_only=maybe", "read_only="]) {
    const answer = await fetch(`${server.url}/mcp?${query}`, { method: "POST", headers, body });
    assert.equal(answer.status, 422, query);
  }
});

test("closes the connection when the client asked to close it", async () => {
  const headers = { "x-api-key": server.apiKey, "content-type": "application/json", connection: "close" };
  const asked = request(`${server.url}/mcp`, { method: "POST", headers, agent: false });
  asked.end(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }));
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  assert.match(Buffer.concat(await answer.toArray()).toString(), /list_deployments/);
  assert.deepEqual([answer.statusCode, answer.headers.connection], [200, "close"]);
});

test("refuses callers without a key, without the role, and with a body that is too large", async () => {
  const post = (headers: Record<string, string>, body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}') =>
    fetch(`${server.url}/mcp`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
  assert.equal((await post({})).status, 401);
  assert.equal((await post({ "x-api-key": "unknown" })).status, 401);
  assert.equal((await post({ "x-api-key": await keyOf("caller") })).status, 403);
  const own = { "x-api-key": server.apiKey };
  assert.equal((await post(own, JSON.stringify({ text: "x".repeat(300_000) }))).status, 413);
  assert.equal((await post(own, "{")).status, 422);
  assert.equal((await post(own)).status, 200);
  assert.equal((await fetch(`${server.url}/mcp`, { headers: own })).status, 405);
});
