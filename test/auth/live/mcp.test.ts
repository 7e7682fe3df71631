import assert from "node:assert/strict";
import { after, test } from "node:test";
import { load, startLiveWorld } from "./world.ts";

const world = await startLiveWorld();
after(() => world[Symbol.asyncDispose]());
const { identity, browser } = world;

/** Part of the official MCP client that the test uses. */
interface McpClient {
  connect(transport: unknown): Promise<void>;
  callTool(call: { name: string }): Promise<{ content: { text: string }[] }>;
  close(): Promise<void>;
}

async function whoami(token: string): Promise<string | undefined> {
  const { Client } = (await load("@modelcontextprotocol/sdk/client/index.js")) as {
    Client: new (info: object) => McpClient;
  };
  const { StreamableHTTPClientTransport } = (await load("@modelcontextprotocol/sdk/client/streamableHttp.js")) as {
    StreamableHTTPClientTransport: new (url: URL, options: object) => unknown;
  };
  const client = new Client({ name: "agent", version: "1.0.0" });
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(identity.mcpUrl), { requestInit }));
  const { content } = await client.callTool({ name: "whoami" });
  await client.close();
  return content[0]?.text;
}

test("an MCP server is discovered by its address, gets a client, and accepts the token that a user consented to", async () => {
  const provider = await world.client.discoverMcpProvider({
    body: { provider_id: "tools", name: "Tools", mcp_server_url: identity.mcpUrl },
  });
  assert.deepEqual(
    [provider.auth_url, provider.token_url, provider.issuer, provider.uses_pkce, provider.is_dynamic_client],
    [`${identity.issuer}/auth`, `${identity.issuer}/token`, identity.issuer, true, true],
  );
  assert.deepEqual([provider.token_endpoint_auth_method, provider.scopes_supported], ["none", ["mcp:read"]]);
  assert.equal(provider.redirect_uri, `${world.url}/v2/auth/callback/${provider.id}`);
  assert.deepEqual(
    identity.lines.filter((line) => "registered" in line),
    [{ registered: provider.client_id }],
  );

  const body = { provider: "tools", scopes: ["mcp:read"], user_id: "alice", agent_id: "helper" } as never;
  const { status, url, auth_id } = await world.client.authenticate({ body });
  assert.equal(status, "pending");
  assert.equal(new URL(url ?? "").searchParams.get("resource"), identity.mcpUrl);
  const waiting = world.client.waitForAuth({ auth_id: auth_id ?? "", timeout: 60 }, { deadlineMs: 70_000 });
  const page = await browser.consent(url ?? "", { user: "alice" });
  assert.equal(page.title, "Connected", page.text);
  const { token } = await waiting;
  assert.equal(await whoami(token ?? ""), "alice");
  await assert.rejects(whoami("another token"));
  assert.equal((await world.client.authenticate({ body })).token, token);
});

test("the same MCP server can be added again under another name, as another client", async () => {
  const before = identity.count((line) => "registered" in line);
  const again = await world.client.discoverMcpProvider({
    body: { provider_id: "tools-again", name: "Tools", mcp_server_url: identity.mcpUrl },
  });
  assert.equal(
    identity.count((line) => "registered" in line),
    before + 1,
  );
  assert.notEqual(again.client_id, (await world.client.getOAuthProvider({ provider_id: "tools" })).client_id);
  const taken = { provider_id: "tools-again", name: "Tools", mcp_server_url: identity.mcpUrl };
  await assert.rejects(world.client.discoverMcpProvider({ body: taken }), /already exists/);
  assert.equal(
    identity.count((line) => "registered" in line),
    before + 1,
    "nothing is registered for a name that is taken",
  );
});
