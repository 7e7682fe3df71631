import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

let pierhead: TestServer;
before(async () => {
  pierhead = await startTestServer({ PIERHEAD_ENDPOINT_AUTH: "true" });
});
after(() => pierhead[Symbol.asyncDispose]());

const admin = "/v2/admin";
const newKey = async (body: object): Promise<string> =>
  ((await pierhead.client.request("POST", `${admin}/api-keys`, { name: "test", ...body })) as { key: string }).key;
const ask = (url: string, key: string | null, headers: Record<string, string> = {}) =>
  fetch(url, { headers: { ...(key !== null && { "x-api-key": key }), ...headers } });

/** An agent that asks the control plane who the caller is, as servers with an auth backend do (contract 7.4). */
const asking = {
  "pierhead.json": JSON.stringify({ start: ["node", "server.js"], health: "/ok" }),
  "server.js": `
const http = require("node:http");
const { LANGSMITH_AUTH_ENDPOINT: base, LANGSMITH_TENANT_ID: tenant, LANGGRAPH_AUTH_TYPE: type } = process.env;
http.createServer(async (request, response) => {
  if (request.url === "/ok") return response.end("{}");
  const { "x-api-key": key = "", authorization = "" } = request.headers;
  const answer = await fetch(base + "/auth/public", { headers: { "x-api-key": key, authorization } });
  const caller = await answer.json();
  response.end(JSON.stringify({ type, status: answer.status, isMine: caller.tenant_id === tenant, caller }));
}).listen(process.env.PORT, "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
`,
};

async function deploy(files: Record<string, string>, body: object = {}): Promise<string> {
  await using repository = await createAgentRepository(files);
  const { id, latest_revision_id } = await pierhead.client.createDeployment({
    body: {
      name: `agent-${Math.random()}`,
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      ...body,
    } as never,
  });
  const revision = await pierhead.client.waitForRevision({ deployment_id: id, revision_id: latest_revision_id ?? "" });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  return (await pierhead.client.getDeployment({ deployment_id: id })).url ?? "";
}

test("an agent with endpoint auth accepts only keys of its workspace and can look up the caller", async () => {
  const url = await deploy(asking);
  const reader = await newKey({ role: "reader" });
  const agent = await newKey({ role: "agent" });
  for (const key of [pierhead.apiKey, reader, agent]) {
    const answer = await ask(url, key);
    assert.equal(answer.status, 200);
    const { type, status, isMine, caller } = (await answer.json()) as Record<string, unknown>;
    assert.deepEqual([type, status, isMine], ["langsmith", 200, true]);
    assert.match((caller as { user_id: string }).user_id, /^key:/);
  }
  assert.equal((await ask(url, null, { authorization: `Bearer ${agent}` })).status, 200);
  assert.equal((await ask(`${url}/ok`, null)).status, 200);

  const { id } = (await pierhead.client.request("POST", `${admin}/workspaces`, { name: "other" })) as { id: string };
  const stranger = await newKey({ role: "admin", workspace_id: id });
  for (const [key, status] of [
    [null, 401],
    ["ph_000000000000_0000000000000000000000000000000000000000000", 401],
    [stranger, 403],
  ] as const) {
    assert.equal((await ask(url, key)).status, status);
  }
});

test("a shared agent accepts keys of every workspace and rejects requests without a key", async () => {
  const url = await deploy(asking, { shareable: true });
  const { id } = (await pierhead.client.request("POST", `${admin}/workspaces`, { name: "third" })) as { id: string };
  const answer = await ask(url, await newKey({ role: "reader", workspace_id: id }));
  assert.equal(answer.status, 200);
  assert.equal(((await answer.json()) as { isMine: boolean }).isMine, false);
  assert.equal((await ask(url, null)).status, 401);
});

test("answers the authentication check and the usage reports of agent servers", async () => {
  const headers = { "x-api-key": pierhead.apiKey };
  for (const method of ["GET", "POST"]) {
    const answer = await fetch(`${pierhead.url}/auth?langgraph-api=true`, { method, headers });
    assert.equal(answer.status, 200);
    const { org_config } = (await answer.json()) as { org_config: { org_id: string } };
    assert.match(org_config.org_id, /^[0-9a-f-]{36}$/);
    assert.equal((await fetch(`${pierhead.url}/auth`, { method })).status, 401);
  }
  for (const path of ["/v1/metadata/submit", "/api/v1/metadata/submit"]) {
    const body = JSON.stringify({ api_key: "x", measures: { "langgraph.platform.runs": 7 }, logs: [] });
    assert.equal((await fetch(pierhead.url + path, { method: "POST", body })).status, 204);
  }
});

test("an agent key can name the user it acts for, and a reader key cannot", async () => {
  const userOf = async (key: string) => {
    const answer = await ask(`${pierhead.url}/auth/public`, key, { "x-user-id": "alice" });
    return ((await answer.json()) as { user_id: string }).user_id;
  };
  assert.equal(await userOf(await newKey({ role: "agent" })), "alice");
  assert.match(await userOf(await newKey({ role: "reader" })), /^key:/);
});
