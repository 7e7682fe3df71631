import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { createClient } from "../../src/client/client.ts";
import { startOAuthServer } from "../support/oauth-server.ts";
import { startWithTwoWorkspaces } from "./two-workspaces.ts";

// The attacker owns a provider. Each of its answers is at most 128 KiB, and each request that causes one is a few bytes.
const world = await startWithTwoWorkspaces({ PIERHEAD_COMPUTE: "simulated" });
after(() => world[Symbol.asyncDispose]());
const provider = await startOAuthServer();
after(() => provider[Symbol.asyncDispose]());
const { apiKey } = world.attacker;
const { url } = world.pierhead;
const client = createClient({ baseUrl: url, apiKey, userId: "alice" });

const endpoints = { auth_url: `${provider.url}/authorize`, token_url: `${provider.url}/token` };
await client.createOAuthProvider({ body: { provider_id: "p", name: "P", client_id: "c", ...endpoints } });

interface Authenticated {
  url: string | null;
  metadata: Record<string, unknown> | null;
}

const authenticate = (fields: object) =>
  client.request("POST", "/v2/auth/authenticate", { provider: "p", scopes: [], ...fields }) as Promise<Authenticated>;

const importToken = (access_token: string) =>
  client.request("POST", "/v2/auth/tokens/import", { provider_id: "p", access_token });

async function signIn(user_id: string, more: object = {}): Promise<string> {
  const begun = await authenticate({ scopes: ["read"], user_id, ...more });
  const state = new URL(begun.url ?? "").searchParams.get("state");
  const page = await fetch(`${url}/v2/auth/callback/p?${new URLSearchParams({ code: "c", state: state ?? "" })}`);
  return /<p>(.*?)<\/p>/.exec(await page.text())?.[1] ?? "";
}

const answerWith = (fields: object) => {
  provider.answer = () => ({
    json: { access_token: "a", refresh_token: "r", token_type: "Bearer", expires_in: 1, ...fields },
  });
};

/** What the server returns for a token that is refreshed on every call. */
const again = (user_id: string) => authenticate({ user_id });

test("a provider cannot make the server store a megabyte of scopes with each token", async () => {
  answerWith({ scope: Array.from({ length: 8_000 }, (_, index) => `scope-${index}`).join(" ") });
  assert.equal(await signIn("scopes"), "The provider granted more scopes than can be stored.");
  answerWith({ scope: "read" });
  assert.equal(await signIn("scopes"), "P is connected.");
  answerWith({ scope: "write ".repeat(15_000) });
  await assert.rejects(again("scopes"), /more scopes than can be stored/);
  const events = await client.listTokenEvents({ limit: 200 });
  assert.ok(JSON.stringify(events).length < 20_000);
});

test("a sign-in whose scopes no database can store fails at once", async () => {
  for (const scope of ["a\u0000b", "a\u0007", "a\ud800"]) {
    answerWith({ scope });
    const begunAt = performance.now();
    assert.equal(await signIn("odd", { force_new: true }), "The provider granted scopes that are not text.");
    assert.ok(performance.now() - begunAt < 10_000);
  }
});

test("the metadata of a token does not grow with each refresh", async () => {
  answerWith({ scope: "read" });
  await signIn("metadata");
  let longest = 0;
  for (let number = 0; number < 20; number += 1) {
    answerWith({ [`field_${number}`]: "x".repeat(3_000) });
    longest = Math.max(longest, JSON.stringify((await again("metadata")).metadata).length);
  }
  assert.ok(longest > 3_000 && longest < 10_000, `${longest}`);
});

test("an MCP server cannot register a provider of megabytes, which every list would return", async () => {
  let long: Record<string, number> = {};
  let ends: Record<string, string> = {};
  const x = (name: string) => "x".repeat(long[name] ?? 1) + (ends[name] ?? "");
  const server = createServer(async (request, response) => {
    request.resume();
    await once(request, "end");
    const own = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const answers: Record<string, object> = {
      "/.well-known/oauth-protected-resource/mcp": {
        resource: `${own}/mcp`,
        authorization_servers: [own],
        scopes_supported: Array.from({ length: 50 }, () => x("scope")),
      },
      "/.well-known/oauth-authorization-server": {
        issuer: own,
        authorization_endpoint: `${own}/a?${x("auth")}`,
        token_endpoint: `${own}/t?${x("token")}`,
        revocation_endpoint: `${own}/v?${x("revocation")}`,
        registration_endpoint: `${own}/r`,
        code_challenge_methods_supported: ["S256"],
      },
      "/r": {
        client_id: x("client"),
        ...{ client_secret: x("secret"), client_secret_expires_at: 0 },
        token_endpoint_auth_method: "client_secret_post",
      },
    };
    const answer = answers[request.url ?? ""];
    response.writeHead(answer === undefined ? 404 : request.url === "/r" ? 201 : 200, {
      "content-type": "application/json",
    });
    response.end(JSON.stringify(answer ?? {}));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  after(() => server.closeAllConnections());
  after(() => server.close());
  const mcp_server_url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  let count = 0;
  const discover = () =>
    client.discoverMcpProvider({ body: { provider_id: `m${count++}`, name: "M", mcp_server_url } });
  for (const name of ["auth", "token", "revocation", "client", "secret"]) {
    long = { [name]: 100_000 };
    await assert.rejects(discover(), /longer than those of any provider/, name);
  }
  long = {};
  for (const name of ["auth", "token", "revocation", "client", "secret"]) {
    for (const end of ["\u0000", "\n", "\ud800"]) {
      ends = { [name]: end };
      await assert.rejects(discover(), /characters that those of no provider have/, name);
    }
  }
  ends = { scope: "\u0000" };
  assert.deepEqual((await discover()).scopes_supported, []);
  ends = {};
  long = { scope: 2_000 };
  assert.ok(JSON.stringify(await discover()).length < 20_000);
  assert.ok(JSON.stringify(await client.listOAuthProviders({})).length < 30_000);
});

test("one user cannot pile up tokens of a provider, and an organization no providers", async () => {
  answerWith({ scope: "read" });
  const imports = await Promise.allSettled(Array.from({ length: 110 }, () => importToken("a")));
  assert.equal((await client.listOAuthTokens({})).length, 100);
  assert.equal(imports.filter(({ status }) => status === "rejected").length, 10);
  await assert.rejects(signIn("alice", { force_new: true }), /at most 100 tokens/);
  assert.equal(await signIn("bob"), "P is connected.");
  const providers = Array.from({ length: 110 }, (_, index) =>
    client.createOAuthProvider({ body: { provider_id: `q${index}`, name: "Q", client_id: "c", ...endpoints } }),
  );
  await Promise.allSettled(providers);
  assert.equal((await client.listOAuthProviders({})).length, 100);
});

test("an imported token cannot add a header to the requests of an agent", async () => {
  for (const token of ["a\r\nx-admin: 1", "a b", "a\u0000", "ä"]) {
    await assert.rejects(importToken(token), /422|pattern/);
  }
});
