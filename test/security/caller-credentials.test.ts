import assert from "node:assert/strict";
import { createPublicKey, randomBytes, verify } from "node:crypto";
import { connect } from "node:net";
import { after, test } from "node:test";
import { createClient } from "../../src/client/client.ts";
import { runCli } from "../cli/run-cli.ts";
import { startListenerProgram } from "../server/listener-program.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { signServiceKey } from "../support/service-key.ts";
import { deployEchoAgent, seenBy } from "./echo-agent.ts";

const serviceSecret = "shared with a service: 32 characters";
const pierhead = await startTestServer({ PIERHEAD_ENDPOINT_AUTH: "true", PIERHEAD_SERVICE_KEY_SECRET: serviceSecret });
after(() => pierhead[Symbol.asyncDispose]());

const createWorkspace = (name: string) =>
  pierhead.client.request("POST", "/v2/admin/workspaces", { name }) as Promise<{ id: string }>;
const createKey = (body: object) =>
  pierhead.client.request("POST", "/v2/admin/api-keys", { name: "test", ...body }) as Promise<{
    id: string;
    key: string;
  }>;

/** The attacker's agent is shareable, so that callers of other workspaces reach it with their keys. */
const attacker = await createWorkspace("attacker");
const attackerKey = await createKey({ role: "admin", workspace_id: attacker.id });
const attackerClient = createClient({ baseUrl: pierhead.url, apiKey: attackerKey.key });
const hostile = await deployEchoAgent({ client: attackerClient }, "hostile", { shareable: true });
const own = await deployEchoAgent(pierhead, "own");

const victim = await createKey({ role: "admin" });

interface Claims {
  iss: string;
  aud: string;
  sub: string;
  role: string;
  tenant_id: string;
  iat: number;
  exp: number;
}

/** Verifies an assertion as an agent would, with the published keys only. */
async function verified(assertion: string, baseUrl = pierhead.url): Promise<Claims> {
  const [head = "", body = "", signature = ""] = assertion.split(".");
  const { alg, kid } = JSON.parse(Buffer.from(head, "base64url").toString());
  const { keys } = (await (await fetch(`${baseUrl}/.well-known/jwks.json`)).json()) as {
    keys: ({ kid: string } & Record<string, string>)[];
  };
  const key = keys.find((one) => one.kid === kid);
  assert.ok(key !== undefined && alg === "EdDSA");
  const open = createPublicKey({ key, format: "jwk" });
  assert.ok(verify(null, Buffer.from(`${head}.${body}`), open, Buffer.from(signature, "base64url")));
  return JSON.parse(Buffer.from(body, "base64url").toString());
}

const headersSeen = async (url: string, headers: Record<string, string>) => {
  const answer = await fetch(`${url}/who`, { headers });
  assert.equal(answer.status, 200);
  return (await answer.json()) as Record<string, string>;
};

test("no agent receives the key that a caller showed to the gateway, whatever header holds it", async () => {
  const { key } = victim;
  const bearer = `Bearer ${key}`;
  const workspaceOf = async () => (await pierhead.client.request("GET", "/auth/public")) as { tenant_id: string };
  const { tenant_id: tenantId } = await workspaceOf();
  const serviceKey = signServiceKey(
    { sub: "tools", exp: Date.now() / 1_000 + 600, tenant_id: tenantId },
    { secret: serviceSecret },
  );
  const shown: Record<string, string>[] = [
    { "x-api-key": key },
    { authorization: bearer },
    { authorization: `bearer   ${key}` },
    { "x-api-key": key, authorization: bearer },
    { "x-api-key": key, authorization: key },
    { "x-api-key": key, authorization: `Basic ${attackerKey.key}` },
    { "x-service-key": serviceKey },
    { "x-api-key": key, "x-service-key": serviceKey },
  ];
  for (const headers of shown) {
    for (const path of ["who", "ok", "ok?x=1"]) {
      assert.equal((await fetch(`${hostile.url}/${path}`, { headers })).status, 200, JSON.stringify(headers));
    }
    await fetch(`${hostile.url}/who`, {
      method: "OPTIONS",
      headers: { ...headers, "access-control-request-method": "GET" },
    });
  }
  const raw = await rawRequest(hostile.url, [`Authorization: ${bearer}`, `Authorization: ${bearer}`]);
  assert.match(raw, /^HTTP\/1\.1 200 /);
  const seen = await seenBy(hostile.url, { "x-api-key": key });
  for (const secret of [key, serviceKey, attackerKey.key]) assert.ok(!seen.includes(secret));
});

test("no agent receives the key of a WebSocket request", async () => {
  const { key } = victim;
  const upgrade = ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];
  for (const shown of [`X-Api-Key: ${key}`, `Authorization: Bearer ${key}`]) {
    assert.match(await rawRequest(hostile.url, [...upgrade, shown], "Upgrade"), /^HTTP\/1\.1 101 /);
  }
  const seen = await seenBy(hostile.url, { "x-api-key": key });
  assert.ok(seen.includes("UPGRADE") && !seen.includes(key));
  const upgrades = (JSON.parse(seen) as { method: string; headers: string[] }[]).filter(
    ({ method }) => method === "UPGRADE",
  );
  for (const { headers } of upgrades) {
    const at = headers.indexOf("x-pierhead-caller");
    assert.equal((await verified(headers[at + 1] ?? "")).sub, `key:${victim.id}`);
  }
});

test("no caller can forge who it is: the assertion is signed, short-lived and for one deployment", async () => {
  const seen = await headersSeen(hostile.url, { "x-api-key": victim.key, "x-pierhead-caller": "forged" });
  const claims = await verified(seen["x-pierhead-caller"] ?? "");
  assert.deepEqual([claims.aud, claims.sub, claims.role], [hostile.id, `key:${victim.id}`, "admin"]);
  assert.equal(claims.iss, pierhead.url);
  assert.ok(claims.exp - claims.iat <= 180 && claims.exp * 1_000 > Date.now() + 60_000);
  assert.equal(seen["x-api-key"], seen["x-pierhead-caller"]);
  const asBearer = await headersSeen(hostile.url, { authorization: `Bearer ${victim.key}` });
  assert.match(asBearer["authorization"] ?? "", /^Bearer eyJ/);
  const elsewhere = await headersSeen(own.url, { "x-api-key": victim.key });
  assert.equal((await verified(elsewhere["x-pierhead-caller"] ?? "")).aud, own.id);
});

test("no agent can use its caller's assertion for anything but to ask who the caller is", async () => {
  const { "x-pierhead-caller": assertion = "" } = await headersSeen(hostile.url, { "x-api-key": victim.key });
  const statusOf = async (url: string, headers: Record<string, string> = { "x-api-key": assertion }) =>
    (await fetch(url, { headers })).status;
  assert.equal(await statusOf(`${pierhead.url}/auth/public`), 200);
  assert.equal(await statusOf(`${pierhead.url}/auth/public`, { authorization: `Bearer ${assertion}` }), 200);
  for (const path of ["/v2/deployments", "/v2/session", "/v2/admin/api-keys", "/v2/auth/tokens?user_id=x"]) {
    assert.equal(await statusOf(pierhead.url + path), 401, path);
    assert.equal(await statusOf(pierhead.url + path, { "x-service-key": assertion }), 401, path);
  }
  for (const { url } of [own, hostile]) {
    assert.equal(await statusOf(`${url}/who`), 401, url);
    assert.equal(await statusOf(`${url}/who`, { authorization: `Bearer ${assertion}` }), 401, url);
  }
  for (const { id } of [own, hostile]) {
    assert.equal(await statusOf(`${pierhead.url}/auth/public?deployment_id=${id}`), 401);
  }
  const changed = `${assertion.slice(0, -8)}AAAAAAAA`;
  assert.equal(await statusOf(`${pierhead.url}/auth/public`, { "x-api-key": changed }), 401);
});

test("no key gets an assertion for a deployment that does not admit it", async () => {
  const ask = async (key: string, id: string) => {
    const answer = await fetch(`${pierhead.url}/auth/public?deployment_id=${id}`, { headers: { "x-api-key": key } });
    return "assertion" in ((await answer.json()) as object);
  };
  assert.equal(await ask(victim.key, own.id), true);
  assert.equal(await ask(attackerKey.key, own.id), false);
  assert.equal(await ask(attackerKey.key, "00000000-0000-4000-8000-000000000000"), false);
});

test("an agent receives credentials that are not Pierhead's", async () => {
  const { authorization } = await headersSeen(own.url, {
    "x-api-key": victim.key,
    authorization: "Bearer of-the-agent",
  });
  assert.equal(authorization, "Bearer of-the-agent");
  const seen = await headersSeen(own.url, { "x-api-key": victim.key, authorization: "Basic dTpw", cookie: "sid=1" });
  assert.deepEqual([seen["authorization"], seen["cookie"]], ["Basic dTpw", "sid=1"]);
  await using open = await startTestServer();
  const agent = await deployEchoAgent(open, "open");
  const sent = { "x-api-key": "of-the-agent", authorization: "Bearer mine", "x-pierhead-caller": "forged" };
  const received = await headersSeen(agent.url, sent);
  assert.deepEqual([received["x-api-key"], received["authorization"]], ["of-the-agent", "Bearer mine"]);
  assert.equal(received["x-pierhead-caller"], undefined);
});

test("a caller key calls agents of its workspace and nothing else", async () => {
  const { key, id } = await createKey({ role: "caller" });
  const headers = { "x-api-key": key };
  const seen = await headersSeen(own.url, headers);
  const claims = await verified(seen["x-pierhead-caller"] ?? "");
  assert.deepEqual([claims.sub, claims.role], [`key:${id}`, "caller"]);
  const foreign = await createKey({ role: "caller", workspace_id: attacker.id });
  assert.equal((await fetch(`${own.url}/who`, { headers: { "x-api-key": foreign.key } })).status, 403);
  for (const path of ["/v2/deployments", "/v2/session", "/v2/events", "/v2/admin/api-keys"]) {
    assert.equal((await fetch(pierhead.url + path, { headers })).status, 403, path);
  }
  const made = await fetch(`${pierhead.url}/v2/deployments`, { method: "POST", headers, body: "{}" });
  assert.equal(made.status, 403);
});

test("no agent of a listener in another network receives its caller's key", async () => {
  const listenerKey = `ph_${randomBytes(6).toString("hex")}_${randomBytes(32).toString("base64url")}`;
  await using remote: TestServer = await startTestServer({
    PIERHEAD_COMPUTE: "none",
    PIERHEAD_LISTENER_KEY: listenerKey,
    PIERHEAD_ENDPOINT_AUTH: "true",
  });
  const listener = await startListenerProgram({
    PIERHEAD_URL: remote.url,
    PIERHEAD_LISTENER_KEY: listenerKey,
    PIERHEAD_COMPUTE: "process",
    PIERHEAD_DATA_DIR: `${remote.dataDir}/listener`,
  });
  try {
    await eventually(
      async () => (await fetch(`${listener.url}/ready`)).status,
      (status) => status === 200,
    );
    const agent = await deployEchoAgent(remote, "remote");
    assert.ok(agent.url.startsWith(listener.url));
    const seen = await headersSeen(agent.url, { "x-api-key": remote.apiKey });
    assert.equal((await verified(seen["x-pierhead-caller"] ?? "", remote.url)).aud, agent.id);
    assert.ok(!(await seenBy(agent.url, { "x-api-key": remote.apiKey })).includes(remote.apiKey));
    await remote.client.deleteDeployment({ deployment_id: agent.id });
    await eventually(
      async () => (await fetch(`${agent.url}/ok`)).status,
      (status) => status === 404,
    );
  } finally {
    await listener.stop();
  }
});

/** Sends a request head with exactly these lines. Resolves with the start of the answer. */
function rawRequest(url: string, lines: string[], connection = "close"): Promise<string> {
  const { hostname, port, pathname } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    socket.on("error", reject);
    socket.once("data", (chunk) => {
      resolve(chunk.toString("latin1"));
      socket.destroy();
    });
    const head = [`GET ${pathname}/who HTTP/1.1`, `Host: ${hostname}:${port}`, `Connection: ${connection}`, ...lines];
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
  });
}

test("no header of a caller passes for one of the gateway in a server that reads dashes and underscores as the same", async () => {
  const names = ["x-pierhead-caller", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "forwarded", "x-request-id"];
  names.push("x-api-key", "authorization", "x-service-key", "transfer-encoding", "connection");
  const spellings = (name: string) => [
    name.replaceAll("-", "_"),
    name.replace("-", "_"),
    name.replace(/^(.*)-/, "$1_"),
  ];
  const forged = new Set(names.flatMap(spellings).filter((name) => name.includes("_")));
  const shown = Object.fromEntries([...forged].map((name) => [name.toUpperCase(), "forged"]));
  const seen = await headersSeen(own.url, { "x-api-key": victim.key, api_key: "the agent's own", ...shown });
  assert.deepEqual(
    Object.entries(seen).filter(([, value]) => value === "forged"),
    [],
  );
  assert.equal(seen["api_key"], "the agent's own");
  const { sub } = await verified(seen["x-pierhead-caller"] ?? "");
  assert.equal(sub, `key:${victim.id}`);
});

test("the command line gives no key to an agent that asks for one itself without --send-key", async () => {
  await using open = await startTestServer();
  const files = {
    "pierhead.json": JSON.stringify({ start: ["node", "server.js"], health: "/ok" }),
    "server.js": `
      const seen = [];
      require("http").createServer((request, response) => {
        if (request.url === "/seen") return response.end(JSON.stringify(seen));
        seen.push(request.headers);
        response.writeHead(request.url === "/ok" ? 200 : 401, { "content-type": "application/json" });
        response.end("{}");
      }).listen(process.env.PORT, "127.0.0.1");`,
  };
  const greedy = await deployEchoAgent(open, "greedy", {}, files);
  const env = { PIERHEAD_URL: open.url, PIERHEAD_API_KEY: open.apiKey };
  for (const argv of [
    ["invoke", "greedy", "hello"],
    ["threads", "greedy"],
  ]) {
    const { code, stderr } = await runCli(argv, { env });
    assert.notEqual(code, 0);
    assert.match(stderr, /would receive yours\.\n.*--send-key/);
  }
  assert.ok(!(await seenBy(greedy.url)).includes(open.apiKey));
  await runCli(["threads", "greedy", "--send-key"], { env });
  assert.ok((await seenBy(greedy.url)).includes(open.apiKey));
});
