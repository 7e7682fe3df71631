import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { get } from "node:http";
import path from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { steadyClock, systemClock } from "../../src/base/clock.ts";
import type { LiveObject } from "../../src/compute/kubernetes/api/manifest.ts";
import type { IsReached } from "../../src/compute/kubernetes/cluster-context.ts";
import type { DeploymentView, PodView } from "../../src/compute/kubernetes/watch/rollout.ts";
import { GatewayTraffic } from "../../src/listener/clusters/gateway-traffic.ts";
import { httpIsReached, httpReadGateways } from "../../src/server/cluster-gateway.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { newRun, openSite, sizes } from "../kubeplane/harness.ts";
import { type Plane, startPlane } from "../kubeplane/plane.ts";
import { eventually } from "../support/eventually.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import { agentProgram } from "./agent.ts";
import { pushAgent, pushPierhead } from "./images.ts";
import { followPodStart } from "./pod-start.ts";
import { address, type RealNode, startRealNode } from "./real-node.ts";

const run = promisify(execFile);

let plane: Plane;
let node: RealNode;
const images = { first: "", second: "", pierhead: "" };

before(async () => {
  const program = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (program === undefined) throw new Error("run this by `npm run test:cluster`");
  plane = await startPlane(program);
  node = await startRealNode(plane, program);
  images.first = await pushAgent(node.images, "agent:1", agentProgram("one"));
  images.second = await pushAgent(node.images, "agent:2", agentProgram("two"));
  images.pierhead = await pushPierhead(node.images);
});
after(async () => {
  await node?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
});

function helm(...args: string[]) {
  const kubeconfig = ["--kubeconfig", path.join(plane.directory, "kubeconfig")];
  return run(process.env["PIERHEAD_TEST_HELM"] ?? "helm", [...args, ...kubeconfig]);
}

/** Values that look like numbers stay texts. */
const setting = (text: string) => [text.startsWith("extraEnv") ? "--set-string" : "--set", text];

/** Returns the last lines of each pod, for a failure. */
async function outputOf(pods: PodView[], namespace: string): Promise<string> {
  const read = ({ metadata: { name } }: PodView) =>
    plane.admin.readLog({ namespace, name }, { tailLines: 10 }, inTime()).catch((error: Error) => error.message);
  return (await Promise.all(pods.map(read))).join("\n");
}

const inTime = () => AbortSignal.timeout(10_000);

/** Calls an agent by its name through the Service of the gateway, on a connection of its own. */
function call(url: string, slug: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const headers = { host: `${slug}.agents.example.com` };
  get(url, { agent: false, headers, signal: AbortSignal.timeout(60_000) }, (response) => {
    let text = `${response.statusCode} `;
    response.on("data", (chunk) => {
      text += chunk;
    });
    response.on("error", reject).on("end", () => resolve(text));
  }).on("error", reject);
  return promise;
}

const isServing = ({ metadata, status = {} }: DeploymentView, replicas: number) =>
  (status.observedGeneration ?? 0) >= (metadata.generation ?? 0) &&
  status.updatedReplicas === replicas &&
  status.availableReplicas === replicas &&
  status.replicas === replicas;

test("the installed gateway loses no request while agents and its own pods are replaced, and wakes an agent", async () => {
  const namespace = await plane.newNamespace();
  const podsOfGateway = async () => {
    const labelSelector = "app.kubernetes.io/name=pierhead-agent-gateway";
    return (await plane.admin.list<PodView>("Pod", namespace, { labelSelector }, inTime())).items;
  };
  const readGateways = async (signal: AbortSignal) => {
    const addresses = (await podsOfGateway()).flatMap(({ status }) => status.podIP ?? []);
    return httpReadGateways(addresses.map((address) => `http://${address}:8127`))(signal);
  };
  const traffic = new GatewayTraffic({
    ...{ read: readGateways, clock: steadyClock(systemClock), logger: createLogger("silent") },
  });
  const isReached: IsReached = async (to, signal) => {
    const addresses = (await podsOfGateway()).flatMap(({ status }) => status.podIP ?? []);
    return httpIsReached(addresses.map((one) => `http://${one}:8127`))(to, signal);
  };
  await using site = await openSite(plane, { hasAgentGateway: true }, { traffic, isReached });
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  await plane.admin.call({
    ...{ method: "PATCH", path: `/api/v1/namespaces/${namespace}`, type: "merge", signal: inTime() },
    body: { metadata: { labels } },
  });
  // The API server of this plane listens on loopback only, and each pod has a loopback of its own.
  await using apiServer = await startTcpProxy(plane.address("admin").url, address);
  const values = [
    `namespaces={${site.namespace}}`,
    ...["createNamespaces=false", "controlPlaneUrl=http://127.0.0.1:1", "listenerKey=k", "replicas=1"],
    ...["agents.url=https://{slug}.agents.example.com", "gateway.drainSeconds=30"],
    `image.repository=${images.pierhead.replace(/:[^:]*$/, "")}`,
    ...["image.tag=test", "resources.requests.cpu=10m"],
    ...["extraEnv[0].name=PIERHEAD_KUBERNETES_URL", `extraEnv[0].value=${apiServer.url.replace("http:", "https:")}`],
    ...["extraEnv[1].name=NODE_TLS_REJECT_UNAUTHORIZED", "extraEnv[1].value=0"],
  ];
  await helm("install", "r", "deploy/helm/pierhead-listener", "-n", namespace, ...values.flatMap(setting));
  const gateway = () =>
    plane.admin.get<DeploymentView & LiveObject>("Deployment", namespace, "pierhead-r-gateway", inTime());
  const gatewayServes = () =>
    eventually(gateway, (found) => found !== null && isServing(found, 2), { timeoutMs: 120_000, what: "the gateway" });
  await gatewayServes().catch(async ({ message }: Error) => {
    throw new Error(`${message.slice(0, 200)}\n${await outputOf(await podsOfGateway(), namespace)}`);
  });
  const service = await plane.admin.get<{ spec: { clusterIP: string } }>(
    "Service",
    namespace,
    "pierhead-r-gateway",
    inTime(),
  );
  const url = `http://${service?.spec.clusterIP}/`;

  const roomy = { ...sizes, cpuLimitCores: 1, memoryLimitMib: 512 };
  const runOf = (image: string, name = "{slug}") => ({
    ...newRun(site, image, { sizes: roomy, url: `https://${name}.agents.example.com` }),
    min_replicas: 0,
  });
  const { deployment_id, slug } = await site.deployed(runOf(images.first));
  const first = await Promise.all(Array.from({ length: 50 }, () => call(url, slug)));
  assert.deepEqual([...new Set(first)], ["200 one"], "no request is lost right after the first revision serves");

  const stopping = new AbortController();
  const answers = new Map<string, number>();
  const callers = Array.from({ length: 4 }, async () => {
    while (!stopping.signal.aborted) {
      const answer = await call(url, slug).catch((error) => `failed: ${error.cause ?? error}`);
      answers.set(answer, (answers.get(answer) ?? 0) + 1);
      await sleep(50);
    }
  });
  const next = runOf(images.second, slug);
  site.controlPlane.assign({ deployment_id, target: next });
  await site.reported(deployment_id, (report) => report.serving_revision_id === next.revision_id);
  const before = (await podsOfGateway()).map(({ metadata }) => metadata.name);
  const annotations = { "example.com/restarted": "1" };
  const body = { spec: { template: { metadata: { annotations } } } };
  await plane.admin.patch("Deployment", { namespace, name: "pierhead-r-gateway" }, body, inTime());
  await gatewayServes();
  await eventually(
    async () => (await podsOfGateway()).map(({ metadata }) => metadata.name),
    (names) => names.length === 2 && names.every((name) => !before.includes(name)),
    { timeoutMs: 120_000, what: "two new pods of the gateway" },
  );
  stopping.abort();
  await Promise.all(callers);
  assert.deepEqual([...answers.keys()].toSorted(), ["200 one", "200 two"], JSON.stringify([...answers]));

  const assignment = site.controlPlane.assignments.get(deployment_id);
  site.controlPlane.assign({ ...assignment, deployment_id, idle_after_ms: 1_000 });
  await site.reported(deployment_id, (report) => report.asleep);
  await eventually(
    () => site.list("Pod"),
    (pods) => pods.length === 0,
    { timeoutMs: 60_000, what: "no pod while it sleeps" },
  );
  site.controlPlane.assign({ ...assignment, deployment_id, idle_after_ms: 600_000 });
  using start = await followPodStart(plane.admin, site.namespace);
  const beganAtMs = performance.now();
  assert.equal(await call(url, slug), "200 two");
  const answeredMs = performance.now();
  const [podCreatedMs, podReadyMs, endpointReadyMs] = await Promise.all([
    start.podCreatedMs,
    start.podReadyMs,
    start.endpointReadyMs,
  ]);
  const steps = [
    ["pod created", podCreatedMs - beganAtMs],
    ["pod's own start", podReadyMs - podCreatedMs],
    ["endpoint", endpointReadyMs - podReadyMs],
    ["answer", answeredMs - endpointReadyMs],
  ] as const;
  const total = [...answers.values()].reduce((sum, count) => sum + count, 0);
  const shown = steps.map(([what, ms]) => `${what} ${Math.round(ms)} ms`).join(", ");
  console.log(`${total} requests, none lost; woken in ${Math.round(answeredMs - beganAtMs)} ms: ${shown}`);
  const addedMs = answeredMs - beganAtMs - (podReadyMs - podCreatedMs);
  // The goal is 300 ms. Other suites may share the processors.
  assert.ok(addedMs < 1_500, `the wake takes ${addedMs} ms beyond the start of its pod`);
  await helm("uninstall", "r", "-n", namespace);
});
