import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Agent, get, type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { steadyClock, systemClock } from "../../src/base/clock.ts";
import type { LiveObject } from "../../src/compute/kubernetes/api/manifest.ts";
import { GatewayTraffic } from "../../src/listener/clusters/gateway-traffic.ts";
import { httpReadGateways } from "../../src/server/cluster-gateway.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";
import { grantGateway, podAddress, startPodServer } from "./cluster-gateways.ts";
import { grant, newRun, openSite, startWorld } from "./harness.ts";
import { openKeySite } from "./key-site.ts";

let world: Awaited<ReturnType<typeof startWorld>>;
let agents: Awaited<ReturnType<typeof startPodServer>>;
before(async () => {
  world = await startWorld({ podAddress: podAddress() });
  agents = await startPodServer((request, response) => {
    const delayMs = request.url === "/slow" ? 3_000 : 0;
    setTimeout(() => response.end(JSON.stringify(request.headers)), delayMs);
  });
});
after(async () => {
  await agents[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const agentsUrl = "https://{slug}.agents.example.com";

interface Answer {
  status: number;
  text: string;
}

/** Calls an agent by its host name, which no DNS knows here. */
function call(
  url: string,
  slug: string,
  path = "/",
  headers: OutgoingHttpHeaders = {},
  agent?: Agent,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const host = `${slug}.agents.example.com`;
    const read = (response: IncomingMessage) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    };
    get(`${url}${path}`, { headers: { host, ...headers }, agent }, read).on("error", reject);
  });
}

test("an idle deployment sleeps and the next request wakes it, by the gateway in the cluster, which counts both", async () => {
  const { plane } = world;
  const urls: string[] = [];
  const read = (signal: AbortSignal) => httpReadGateways(urls)(signal);
  const traffic = new GatewayTraffic({ read, clock: steadyClock(systemClock), logger: createLogger("silent") });
  await using site = await openSite(plane, { hasAgentGateway: true, ingressClass: "nginx" }, { traffic });
  const start = await grantGateway(plane, site.namespace);
  // The control plane is not there: routes and waking do not need it.
  const gateways = [
    await start({ PIERHEAD_URL: "http://127.0.0.1:1" }),
    await start({ PIERHEAD_URL: "http://127.0.0.1:1" }),
  ];
  urls.push(...gateways.map(({ countsUrl }) => countsUrl));
  const [first, second] = gateways as [(typeof gateways)[0], (typeof gateways)[0]];
  try {
    const { deployment_id, slug } = await site.deployed({
      ...newRun(site, undefined, { url: agentsUrl }),
      min_replicas: 0,
    });
    assert.deepEqual(await site.list("Ingress"), [], "one route leads to the gateway");
    const ask = (url: string) => call(url, slug).then(({ status }) => status);
    assert.deepEqual([await ask(first.url), await ask(second.url), await ask(second.url)], [200, 200, 200]);
    assert.equal((await call(first.url, "other-1")).status, 404);
    const sampled = () => site.controlPlane.samples.filter((sample) => sample.deployment_id === deployment_id);
    const requests = () => sampled().reduce((sum, sample) => sum + sample.requests, 0);
    await eventually(requests, (sum) => sum === 3, { what: "samples of all replicas of the gateway" });

    const elsewhere = randomUUID();
    site.controlPlane.assign({ deployment_id: elsewhere, target: newRun(site) });
    const refused = await site.reported(elsewhere, ({ target_phase }) => target_phase === "failed");
    assert.match(refused.cause?.message ?? "", /does not serve https:\/\/agent\.example\.com\/?\. Remove custom_url/);

    const assignment = site.controlPlane.assignments.get(deployment_id);
    site.controlPlane.assign({ ...assignment, deployment_id, idle_after_ms: 1_000 });
    const asleep = await site.reported(deployment_id, (report) => report.asleep);
    assert.equal(asleep.target_phase, "ready");
    const replicas = async () =>
      (await site.get<LiveObject & { spec: { replicas: number } }>("Deployment", slug))?.spec.replicas;
    assert.equal(await replicas(), 0);
    await eventually(
      () => site.list("Pod"),
      (pods) => pods.length === 0,
    );

    site.controlPlane.assign({ ...assignment, deployment_id, idle_after_ms: 600_000 });
    // Both at once: each replica of the gateway wakes it.
    assert.deepEqual(await Promise.all([ask(first.url), ask(second.url), ask(second.url)]), [200, 200, 200]);
    assert.equal(await replicas(), 1);
    await site.reported(deployment_id, (report) => !report.asleep && report.target_phase === "ready");
    await eventually(
      () => site.get("Deployment", slug),
      (server) => server?.metadata.annotations?.["pierhead.dev/asleep"] === undefined,
    );
    await eventually(requests, (sum) => sum === 6);
  } finally {
    await Promise.all(gateways.map((gateway) => gateway.stop()));
  }
});

test("the gateway refuses strangers, passes an assertion, and is replaced under requests without losing one", async () => {
  const { plane } = world;
  const namespace = await plane.newNamespace();
  await grant(plane, namespace);
  await using site = await openKeySite([namespace], {
    server: { PIERHEAD_ENDPOINT_AUTH: "true" },
    listener: {
      PIERHEAD_KUBERNETES_AGENT_GATEWAY: "http://127.0.0.1:1",
      PIERHEAD_AGENTS_URL: agentsUrl,
    },
  });
  await site.start(plane);
  const start = await grantGateway(plane, namespace);
  const settings = { PIERHEAD_URL: site.server.url, PIERHEAD_GATEWAY_LEAVE_MS: "2000" };
  const old = [await start(settings), await start(settings)];
  const { client, apiKey } = site.server;
  const made = await client.createDeployment({
    body: {
      name: "checked",
      source: "external_docker",
      source_config: { listener_id: site.listener_id },
      source_revision_config: { image_uri: "127.0.0.1:1/agent:1" },
      secrets: [
        { name: "POSTGRES_URI_CUSTOM", value: "postgresql://127.0.0.1:1/x" },
        { name: "REDIS_URI_CUSTOM", value: "redis://127.0.0.1:1" },
      ],
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const revision = await client.waitForRevision(ids);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  const slug = new URL(made.url ?? "").hostname.split(".")[0] ?? "";

  const [one] = old as [(typeof old)[0]];
  assert.equal((await call(one.url, slug)).status, 401);
  assert.equal((await call(one.url, slug, "/", { "x-api-key": "ph_000000000000_wrong" })).status, 401);
  assert.equal((await call(one.url, slug, "/ok")).status, 200, "probes need no key");
  const headers = { "x-api-key": apiKey };
  const seen = await call(one.url, slug, "/", headers);
  assert.equal(seen.status, 200);
  assert.ok(!seen.text.includes(apiKey));
  assert.match(JSON.parse(seen.text)["x-pierhead-caller"], /^ey/);

  // The cluster's view of the gateway: a replica leaves it some time after it was asked to end.
  let serving = old.map(({ url }) => url);
  const ending = new AbortController();
  const agent = new Agent({ keepAlive: true, maxSockets: 20 });
  const results: string[] = [];
  const caller = async (path: string) => {
    for (let turn = 0; !ending.signal.aborted; turn += 1) {
      const url = serving[turn % serving.length] as string;
      const result = await call(url, slug, path, headers, agent).catch((error: Error) => ({ status: error.message }));
      results.push(String(result.status));
      await sleep(path === "/slow" ? 0 : 20);
    }
  };
  const callers = Promise.all([caller("/"), caller("/"), caller("/slow"), caller("/slow")]);
  const next = [await start(settings), await start(settings)];
  for (const [index, leaving] of old.entries()) {
    const stopped = leaving.stop();
    await sleep(500);
    serving = [...serving.filter((url) => url !== leaving.url), next[index]?.url as string];
    await stopped;
  }
  ending.abort();
  await callers;
  agent.destroy();
  assert.ok(results.length > 100, `${results.length} requests`);
  assert.deepEqual([...new Set(results)], ["200"]);

  // Without the control plane, known callers are admitted and routes go on.
  await site.server.server.close();
  assert.equal((await call(next[0]?.url as string, slug, "/", headers)).status, 200);
  await Promise.all(next.map((gateway) => gateway.stop()));
});
