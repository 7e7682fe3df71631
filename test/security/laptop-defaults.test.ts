import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import type { WebhookDelivery } from "../../src/contract/webhooks/webhook.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { runCli } from "../cli/run-cli.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

/** Everything that announces that others than this machine reach the server. */
const announcements: Record<string, string>[] = [
  { PIERHEAD_PUBLIC_URL: "https://pierhead.example.org" },
  { PIERHEAD_PUBLIC_URL: "http://10.1.2.3:8124" },
  { PIERHEAD_TRUSTED_PROXIES: "127.0.0.1" },
  { PIERHEAD_ROOT_DOMAIN: "agents.example.org" },
  { HOST: "0.0.0.0" },
];

const secret = "internal-figure-4711";

/** A service of the operator's network that needs no key. */
async function startInternalService() {
  let requests = 0;
  const server = createServer((_request, response) => {
    requests += 1;
    response.end(secret);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    requests: () => requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const started = (environment: Record<string, string>) =>
  startTestServer({ PIERHEAD_COMPUTE: "simulated", ...environment });

/** Sends a request that must be refused or succeed, without a client that would throw. */
async function ask({ url, apiKey }: TestServer, method: string, pathname: string, body?: unknown) {
  const headers = { "x-api-key": apiKey, "content-type": "application/json" };
  const answer = await fetch(`${url}${pathname}`, { method, headers, body: JSON.stringify(body) });
  return { status: answer.status, text: await answer.text() };
}

/** Sends the test message of a webhook and returns its delivery after the first attempt. */
async function delivered(server: TestServer, url: string): Promise<WebhookDelivery> {
  const made = await ask(server, "POST", "/v2/webhooks", { url });
  assert.equal(made.status, 201, made.text);
  const { id } = JSON.parse(made.text) as { id: string };
  await ask(server, "POST", `/v2/webhooks/${id}/test`);
  const [delivery] = await eventually(
    async () => (await server.client.listWebhookDeliveries({ webhook_id: id })).items,
    ([first]) => first?.last_attempt_at != null,
  );
  return delivery as WebhookDelivery;
}

const deploymentOf = (repo_url: string) => ({
  name: "outside",
  source: "github",
  source_config: { repo_url, deployment_type: "dev", build_on_push: false },
  source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
});

for (const announcement of announcements) {
  test(`does not keep the defaults of a laptop: ${JSON.stringify(announcement)}`, async () => {
    await using internal = await startInternalService();
    await using repository = await createAgentRepository(nodeAgent("one"));
    await using server = await started(announcement);

    const literal = await ask(server, "POST", "/v2/webhooks", { url: `http://127.0.0.1:${internal.port}/` });
    assert.match(literal.text, /not a public address/);
    const named = await delivered(server, `http://localhost:${internal.port}/`);
    assert.match(named.error ?? "", /not a public address/);
    assert.equal(internal.requests(), 0, "the server called an internal service");

    for (const url of [repository.directory, pathToFileURL(repository.directory).href]) {
      const answer = await ask(server, "POST", "/v2/deployments", deploymentOf(url));
      assert.ok([400, 422].includes(answer.status), `${url}: ${answer.status} ${answer.text}`);
    }

    const endpoints = { auth_url: "https://127.0.0.1/a", token_url: `https://127.0.0.1:${internal.port}/token` };
    const provider = { provider_id: "inside", name: "Inside", client_id: "c", client_secret: "s", ...endpoints };
    const refused = await ask(server, "POST", "/v2/auth/providers", provider);
    assert.deepEqual([refused.status, /must be a public address/.test(refused.text)], [400, true], refused.text);

    const metrics = await fetch(`${server.url}/metrics`);
    assert.equal(metrics.status, 401);
    assert.doesNotMatch(await metrics.text(), /^pierhead_/m);
  });
}

test("does not refuse on a laptop what its user needs there, also with a loopback address as the public one", async () => {
  await using repository = await createAgentRepository(nodeAgent("one"));
  for (const environment of [{}, { PIERHEAD_PUBLIC_URL: "http://127.0.0.1:8124" }, { HOST: "localhost" }]) {
    await using internal = await startInternalService();
    await using server = await started(environment as Record<string, string>);
    const { response_status: status } = await delivered(server, `http://127.0.0.1:${internal.port}/`);
    assert.deepEqual([status, internal.requests()], [200, 1]);
    const made = await ask(server, "POST", "/v2/deployments", deploymentOf(repository.directory));
    assert.equal(made.status, 201, made.text);
    assert.match(await (await fetch(`${server.url}/metrics`)).text(), /^pierhead_/m);
  }
});

test("does not overrule explicit settings of a public server", async () => {
  await using internal = await startInternalService();
  await using server = await started({
    PIERHEAD_PUBLIC_URL: "https://pierhead.example.org",
    PIERHEAD_ALLOW_PRIVATE_NETWORK: "true",
    PIERHEAD_ANONYMOUS_METRICS: "true",
  });
  assert.equal((await delivered(server, `http://127.0.0.1:${internal.port}/`)).response_status, 200);
  assert.equal((await fetch(`${server.url}/metrics`)).status, 200);
  await server.restart({ PIERHEAD_ANONYMOUS_METRICS: "", PIERHEAD_METRICS_TOKEN: "t" });
  assert.equal((await fetch(`${server.url}/metrics`)).status, 401);
  const headers = { authorization: "Bearer t" };
  assert.equal((await fetch(`${server.url}/metrics`, { headers })).status, 200);
});

test("does not show the answer to a webhook unless the operator allows it", async () => {
  await using internal = await startInternalService();
  await using server = await started({});
  const url = `http://127.0.0.1:${internal.port}/`;
  const delivery = await delivered(server, url);
  assert.ok(!JSON.stringify(delivery).includes(secret), JSON.stringify(delivery));
  const { response_status: status, response_bytes: bytes, response_text: text } = delivery;
  assert.deepEqual([status, bytes, text], [200, secret.length, null]);
  await server.restart({ PIERHEAD_WEBHOOK_ANSWERS: "true" });
  assert.equal((await delivered(server, `${url}again`)).response_text, secret);
});

test("does not believe forwarded headers of a peer that is no trusted proxy", async () => {
  const headers = { "x-forwarded-proto": "https", "x-forwarded-host": "evil.example" };
  const uploadUrl = async (server: TestServer) => {
    const body = { name: "up", source: "internal_source", source_config: {}, source_revision_config: {} };
    const { id } = JSON.parse((await ask(server, "POST", "/v2/deployments", body)).text) as { id: string };
    const path = `${server.url}/v2/deployments/${id}/upload-url`;
    const answer = await fetch(path, { method: "POST", headers: { ...headers, "x-api-key": server.apiKey } });
    return new URL(((await answer.json()) as { upload_url: string }).upload_url);
  };
  await using server = await started({});
  const plain = await uploadUrl(server);
  assert.deepEqual([plain.protocol, plain.hostname], ["http:", "127.0.0.1"]);
  await using proxied = await started({ PIERHEAD_TRUSTED_PROXIES: "127.0.0.1" });
  assert.equal((await uploadUrl(proxied)).protocol, "https:");
});

test("does not hide the posture: doctor and the log of the start name every switch, its state and the reason", async () => {
  const lines: string[] = [];
  const logger = createLogger("info", { write: (line: string) => void lines.push(line) });
  const environment = { PIERHEAD_COMPUTE: "simulated", PIERHEAD_PUBLIC_URL: "https://pierhead.example.org" };
  await using server = await startTestServer({ ...environment, PIERHEAD_ALLOW_LOCAL_SOURCES: "true" }, { logger });
  const logged = JSON.parse(lines.find((line) => line.includes("posture determined")) ?? "{}");
  assert.equal(logged.posture, "public");
  assert.match(logged.because, /PIERHEAD_PUBLIC_URL is https:\/\/pierhead\.example\.org/);
  assert.ok(logged.items.includes("local sources: on (set explicitly)"), logged.items);
  assert.ok(logged.items.includes("private network: off (the default of a public server)"), logged.items);

  const doctor = ["doctor", "--data-dir", path.resolve(server.dataDir)];
  const { stdout } = await runCli(doctor);
  assert.match(stdout, /! posture +public: PIERHEAD_PUBLIC_URL is .*not loopback/);
  assert.match(stdout, /Turned on although others reach this server: local sources \(PIERHEAD_ALLOW_LOCAL_SOURCES\)/);
  assert.match(stdout, /local sources +on +set explicitly/);
  assert.match(stdout, /private network +off +the default of a public server \(PIERHEAD_ALLOW_PRIVATE_NETWORK\)/);
  assert.match(stdout, /anonymous metrics +off/);
  assert.match(stdout, /webhook answers +off/);
  const { posture } = JSON.parse((await runCli([...doctor, "--json"])).stdout);
  assert.deepEqual([posture.kind, posture.items.length], ["public", 7]);
  const reader = await ask(server, "POST", "/v2/admin/api-keys", { name: "r", role: "reader" });
  const key = (JSON.parse(reader.text) as { key: string }).key;
  assert.match((await runCli(doctor, { env: { PIERHEAD_API_KEY: key } })).stdout, /posture +unknown: /);
});
