import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { discoverMcpProvider } from "../../src/auth/oauth/discover-mcp.ts";
import { createProviderFetch, type ProviderFetch } from "../../src/auth/oauth/outbound.ts";
import type { ProviderAnswer } from "../support/oauth-server.ts";
import { canary, startAuthFixture } from "./auth-fixture.ts";

const w = await startAuthFixture();
const { t, as } = w;

/** Responses of an MCP server and its authorization server by path; anything else is 404. */
type Answers = Record<string, ProviderAnswer>;

const resource = `${as.url}/mcp`;
const challenge: ProviderAnswer = {
  status: 401,
  headers: { "www-authenticate": `Bearer resource_metadata="${as.url}/.well-known/oauth-protected-resource/mcp"` },
};
const endpoints = {
  authorization_endpoint: `${as.url}/authorize`,
  token_endpoint: `${as.url}/token`,
  registration_endpoint: `${as.url}/register`,
};
const metadata = { issuer: as.url, ...endpoints, code_challenge_methods_supported: ["S256"] };
const honest: Answers = {
  "/mcp": challenge,
  "/.well-known/oauth-protected-resource/mcp": { json: { resource, authorization_servers: [as.url] } },
  "/.well-known/oauth-authorization-server": {
    json: {
      ...metadata,
      token_endpoint_auth_methods_supported: ["none", "client_secret_post"],
      scopes_supported: ["a"],
    },
  },
  "/register": { status: 201, json: { client_id: "made", token_endpoint_auth_method: "none" } },
};

const discover = (mcp_server_url = resource, more: object = {}) =>
  t.ask({
    method: "POST",
    url: "/v2/auth/providers/mcp-discover",
    payload: { provider_id: `m-${randomUUID()}`, name: "Tools", mcp_server_url },
    ...more,
  });
const answering = (answers: Answers) => {
  as.answer = ({ path }) => answers[path] ?? { status: 404, text: "" };
};

test("discovers the provider from an MCP server's address, registers there and uses its resource", async () => {
  answering(honest);
  const { status, body, text } = await discover();
  assert.equal(status, 200, text);
  assert.deepEqual(
    [body.client_id, body.auth_url, body.token_url, body.issuer, body.mcp_server_url, body.scopes_supported],
    ["made", endpoints.authorization_endpoint, endpoints.token_endpoint, as.url, resource, ["a"]],
  );
  assert.deepEqual([body.uses_pkce, body.is_dynamic_client, body.token_endpoint_auth_method], [true, true, "none"]);
  const registered = as.calls.find(({ path }) => path === "/register")?.form as unknown as Record<string, unknown>;
  assert.deepEqual(
    [registered["redirect_uris"], registered["grant_types"], registered["token_endpoint_auth_method"]],
    [[body.redirect_uri], ["authorization_code", "refresh_token"], "none"],
  );
  assert.equal(body.redirect_uri, `http://127.0.0.1:8124/v2/auth/callback/${body.id}`);

  const { url, state } = await w.begin(body.provider_id, { scopes: [] });
  assert.equal(new URL(url).searchParams.get("resource"), resource);
  as.calls.length = 0;
  as.answer = () => ({ json: { access_token: "a", refresh_token: "r", token_type: "bearer", expires_in: 3600 } });
  assert.equal((await w.comeBack(body.id, { code: "c", state, iss: as.url })).status, 200);
  assert.deepEqual([as.calls[0]?.form["resource"], as.calls[0]?.form["client_secret"]], [resource, undefined]);
});

const variants: [string, Answers][] = [
  [
    "metadata of an OpenID provider alone",
    {
      ...honest,
      "/.well-known/oauth-authorization-server": { status: 404, text: "" },
      "/.well-known/openid-configuration": { json: metadata },
    },
  ],
  ["no challenge, and metadata at the usual place", { ...honest, "/mcp": { status: 405, text: "" } }],
  [
    "metadata for the whole origin",
    {
      ...honest,
      "/mcp": { status: 200, text: "" },
      "/.well-known/oauth-protected-resource/mcp": { status: 404, text: "" },
      "/.well-known/oauth-protected-resource": { json: { resource: as.url, authorization_servers: [as.url] } },
    },
  ],
  [
    "no metadata of a resource, as in older revisions",
    {
      ...honest,
      "/mcp": { status: 401, text: "" },
      "/.well-known/oauth-protected-resource/mcp": { status: 404, text: "" },
    },
  ],
  [
    "no metadata at all, as in the oldest",
    { "/mcp": { status: 401, text: "" }, "/register": { status: 201, json: { client_id: "made" } } },
  ],
  [
    "a secret for the client",
    {
      ...honest,
      "/.well-known/oauth-authorization-server": { json: metadata },
      "/register": {
        status: 201,
        json: { client_id: "made", client_secret: `${canary}-secret`, client_secret_expires_at: 0 },
      },
    },
  ],
  [
    "numbers and objects instead of lists",
    {
      ...honest,
      "/.well-known/oauth-protected-resource/mcp": { json: { resource, authorization_servers: 7 } },
      "/.well-known/oauth-authorization-server": {
        json: { ...metadata, token_endpoint_auth_methods_supported: 7, scopes_supported: {} },
      },
    },
  ],
  [
    "a registration that is answered with 200",
    { ...honest, "/register": { status: 200, json: { client_id: "made" } } },
  ],
];

for (const [what, answers] of variants) {
  test(`also discovers: ${what}`, async () => {
    answering(answers);
    const { status, body, text } = await discover();
    assert.equal(status, 200, text);
    assert.deepEqual([body.client_id, body.token_url], ["made", endpoints.token_endpoint]);
    assert.ok(!text.includes(canary));
  });
}

const withMetadata = (fields: object): Answers => ({
  ...honest,
  "/.well-known/oauth-authorization-server": { json: { ...metadata, ...fields } },
});
const withResource = (fields: object): Answers => ({
  ...honest,
  "/.well-known/oauth-protected-resource/mcp": { json: { resource, authorization_servers: [as.url], ...fields } },
});

/** Lies and faults during discovery. None of them may register a client that is used afterwards. */
const refused: [string, Answers, RegExp][] = [
  ["a resource of another server", withResource({ resource: "https://evil.example/mcp" }), /about another resource/],
  ["a sibling resource", withResource({ resource: `${as.url}/mcp2` }), /about another resource/],
  ["a nested resource", withResource({ resource: `${as.url}/mcp/inner` }), /about another resource/],
  ["a resource that is not a URL", withResource({ resource: 7 }), /names no resource/],
  [
    "metadata of a resource that is no JSON",
    { ...honest, "/.well-known/oauth-protected-resource/mcp": { text: canary } },
    /names no resource/,
  ],
  [
    "metadata in a private network",
    {
      ...honest,
      "/mcp": { status: 401, headers: { "www-authenticate": 'Bearer resource_metadata="http://10.0.0.1/"' } },
    },
    /must be called with https/,
  ],
  [
    "metadata in a file",
    {
      ...honest,
      "/mcp": { status: 401, headers: { "www-authenticate": "Bearer resource_metadata=file:///etc/passwd" } },
    },
    /Only http and https/,
  ],
  [
    "an authorization server in a private network",
    withResource({ authorization_servers: ["http://192.168.0.1"] }),
    /must be called with https/,
  ],
  [
    "an authorization server without metadata",
    withResource({ authorization_servers: [`${as.url}/none`] }),
    /has no metadata of an authorization server/,
  ],
  ["another issuer", withMetadata({ issuer: "https://evil.example" }), /names another issuer/],
  ["an issuer with an extra path", withMetadata({ issuer: `${as.url}/x` }), /names another issuer/],
  ["no issuer", withMetadata({ issuer: undefined }), /names another issuer/],
  ["an issuer that is not a URL", withMetadata({ issuer: "id.example" }), /names another issuer/],
  ["no PKCE", withMetadata({ code_challenge_methods_supported: undefined }), /does not offer PKCE/],
  ["only the plain PKCE method", withMetadata({ code_challenge_methods_supported: ["plain"] }), /does not offer PKCE/],
  ["PKCE methods that are no list", withMetadata({ code_challenge_methods_supported: {} }), /does not offer PKCE/],
  [
    "a token endpoint in clear text",
    withMetadata({ token_endpoint: "http://id.example/token" }),
    /'token_url' must begin with https/,
  ],
  [
    "an authorization endpoint that runs code",
    withMetadata({ authorization_endpoint: "javascript:alert(1)" }),
    /'auth_url' must be an https/,
  ],
  [
    "an authorization endpoint that sets the state",
    withMetadata({ authorization_endpoint: `${as.url}/authorize?state=x` }),
    /each request sets it itself/,
  ],
  ["no endpoints", withMetadata({ token_endpoint: undefined }), /contains no endpoints/],
  [
    "a registration in a private network",
    withMetadata({ registration_endpoint: "http://10.0.0.1/register" }),
    /must be called with https/,
  ],
  [
    "a registration endpoint that is not a URL",
    withMetadata({ registration_endpoint: 7 }),
    /not what the standard asks for/,
  ],
  ["no registration endpoint", withMetadata({ registration_endpoint: undefined }), /by hand.*auth_url .*token_url/],
  [
    "a refused registration",
    { ...honest, "/register": { status: 400, json: { error: "invalid_redirect_uri", error_description: canary } } },
    /does not accept the redirect URI/,
  ],
  ["a registration that fails", { ...honest, "/register": { status: 500, text: canary } }, /answered with status 500/],
  [
    "a registration without a client",
    { ...honest, "/register": { status: 201, json: {} } },
    /not what the standard asks for/,
  ],
  [
    "a registration of another kind of client",
    {
      ...honest,
      "/register": { status: 201, json: { client_id: "made", token_endpoint_auth_method: "private_key_jwt" } },
    },
    /was not requested/,
  ],
  [
    "a redirect",
    {
      ...honest,
      "/.well-known/oauth-authorization-server": { status: 302, headers: { location: "http://169.254.169.254/" } },
      "/.well-known/openid-configuration": { status: 302 },
    },
    /has no metadata/,
  ],
  [
    "endless metadata",
    {
      ...honest,
      "/.well-known/oauth-authorization-server": {
        raw: (response) => void response.writeHead(200).end(Buffer.alloc(2 * 1024 * 1024, "a")),
      },
    },
    /larger than 131072 bytes/,
  ],
  [
    "metadata that takes long to parse",
    withMetadata({ lists: Array.from({ length: 6_000 }, () => []) }),
    /more than 5000 values/,
  ],
];

for (const [what, answers, because] of refused) {
  test(`fails with a plain reason: ${what}`, async () => {
    answering(answers);
    const { status, body, text } = await discover();
    assert.equal(status, 400, text);
    assert.match(body.detail, /^The MCP server's provider could not be set up: /);
    assert.match(body.detail, because);
    assert.ok(!text.includes(canary));
    assert.equal(
      (await t.ask({ url: "/v2/auth/providers" })).body.filter(
        ({ client_id }: { client_id: string }) => client_id === "",
      ).length,
      0,
    );
  });
}

test("does not call an internal address, wherever it appears", async () => {
  const closed = await startAuthFixture({ allowPrivateNetwork: false });
  const inside = [
    "http://127.0.0.1:1/mcp",
    "https://127.0.0.1/mcp",
    "https://localhost/mcp",
    "https://10.0.0.1/mcp",
    "https://[::1]/mcp",
    "https://169.254.169.254/mcp",
    `${closed.as.url}/mcp`,
  ];
  for (const mcp_server_url of inside) {
    const payload = { provider_id: "inside", name: "Inside", mcp_server_url };
    const answer = await closed.t.ask({ method: "POST", url: "/v2/auth/providers/mcp-discover", payload });
    assert.equal(answer.status, 400, mcp_server_url);
    assert.match(answer.body.detail, /not a public address|https/);
  }
  for (const mcp_server_url of ["ftp://a/", "file:///etc/passwd", "mcp", "https://a:b@id.example/"]) {
    const payload = { provider_id: "inside", name: "Inside", mcp_server_url };
    const answer = await closed.t.ask({ method: "POST", url: "/v2/auth/providers/mcp-discover", payload });
    assert.equal(answer.status, 400, mcp_server_url);
  }
  assert.equal(closed.as.calls.length, 0);
});

test("does not call an internal address that the metadata of a public MCP server names", async () => {
  const outside = "https://mcp.example";
  const guarded = createProviderFetch({ allowPrivateNetwork: false });
  for (const inside of [
    ...["https://10.0.0.1", "https://127.0.0.1", "https://169.254.169.254", "https://localhost", "https://[::1]"],
    ...[
      "https://[::ffff:10.0.0.1]",
      "https://0x7f000001",
      "https://2130706433",
      "https://192.168.1.1.",
      "https://100.64.0.1",
    ],
  ]) {
    const resource = { resource: `${outside}/mcp`, authorization_servers: [outside] };
    const server = {
      ...{ issuer: outside, authorization_endpoint: `${outside}/a`, token_endpoint: `${outside}/t` },
      ...{ registration_endpoint: `${outside}/r`, code_challenge_methods_supported: ["S256"] },
    };
    const pointers: Record<string, { named?: string; resource?: object; server?: object }> = {
      resource_metadata: { named: `${inside}/metadata` },
      authorization_servers: { resource: { ...resource, authorization_servers: [inside] } },
      authorization_endpoint: { server: { ...server, authorization_endpoint: `${inside}/a` } },
      token_endpoint: { server: { ...server, token_endpoint: `${inside}/t` } },
      registration_endpoint: { server: { ...server, registration_endpoint: `${inside}/r` } },
      revocation_endpoint: { server: { ...server, revocation_endpoint: `${inside}/v` } },
    };
    for (const [pointer, lie] of Object.entries(pointers)) {
      // Stands in for a server on the internet; every other address goes through the guard.
      const fetch: ProviderFetch = async (url, options) => {
        if (!url.startsWith(`${outside}/`)) return guarded(url, options);
        const { pathname } = new URL(url);
        const named = lie.named ?? `${outside}/.well-known/oauth-protected-resource/mcp`;
        const headers = { "www-authenticate": `Bearer resource_metadata="${named}"` };
        if (pathname === "/mcp") return new Response(null, { status: 401, headers });
        if (pathname.startsWith("/.well-known/oauth-protected")) return Response.json(lie.resource ?? resource);
        if (pathname.startsWith("/.well-known/")) return Response.json(lie.server ?? server);
        return Response.json({ client_id: "made", token_endpoint_auth_method: "none" }, { status: 201 });
      };
      const request = {
        name: "x",
        mcpServerUrl: `${outside}/mcp`,
        redirectUri: `${outside}/cb`,
        allowPrivateNetwork: false,
      };
      await assert.rejects(discoverMcpProvider(fetch, request), /public address/, `${pointer} ${inside}`);
    }
  }
});
