import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { parseAllDocuments } from "yaml";
import type { Manifest } from "../../src/compute/kubernetes/api/manifest.ts";
import type { PodView } from "../../src/compute/kubernetes/watch/rollout.ts";
import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { newRun } from "../kubeplane/harness.ts";
import { make } from "../kubeplane/plane.ts";
import { eventually } from "../support/eventually.ts";
import { openRestrictedSite, read, roomy, runOf, startClusterWorld } from "./cluster-world.ts";
import { addDisk } from "./disk.ts";
import { compilePolicyEngine } from "./policy-engine.ts";

const run = promisify(execFile);
const world = await startClusterWorld({ policyEngine: await compilePolicyEngine() });
after(() => world[Symbol.asyncDispose]());

const inTime = () => AbortSignal.timeout(10_000);
const registry = new URL(`http://${world.node.images.registry}`);

/** Returns what a pod meets at an address: "open" or "closed". The node itself reaches each pod, as its kubelet must. */
async function connection(from: string, host: string, port: number): Promise<string> {
  return (await read(`http://${from}:8000/connect/${host}/${port}`)).slice("200 ".length);
}

/** The policy engine works after the pods, so what is expected is awaited. */
const becomes = (from: string, host: string, port: number, expected: "open" | "closed", what: string) =>
  eventually(
    () => connection(from, host, port),
    (found) => found === expected,
    { timeoutMs: 60_000, what: `${what}: ${expected}` },
  );

async function addressOf(namespace: string, labelSelector: string): Promise<string> {
  const { items } = await world.plane.admin.list<PodView>("Pod", namespace, { labelSelector }, inTime());
  return items[0]?.status?.podIP ?? "";
}

/** Starts a pod of the agent's image, which connects where it is asked to. @returns its address */
async function startPod(namespace: string, name: string, labels: Record<string, string>): Promise<string> {
  const container = { name: "agent", image: world.images.first, securityContext: { runAsUser: 1000 } };
  const path = `/api/v1/namespaces/${namespace}/pods`;
  await make(world.plane.admin, path, { metadata: { name, labels }, spec: { containers: [container] } });
  const found = await eventually(
    () => world.plane.admin.get<PodView>("Pod", namespace, name, inTime()),
    (pod) => pod?.status?.podIP !== undefined && pod.status.phase === "Running",
    { timeoutMs: 60_000, what: `the pod ${name}` },
  );
  const at = found?.status?.podIP ?? "";
  await eventually(
    () => read(`http://${at}:8000/`).catch(() => ""),
    (answer) => answer === "200 one",
    { timeoutMs: 60_000, what: `an answer of ${name}` },
  );
  return at;
}

/** Creates the NetworkPolicies that the chart of the listener installs for these namespaces. */
async function installPolicies(release: string, agents: string, builds: string): Promise<void> {
  const values = [
    ...["--set", `namespaces={${agents}}`, "--set", `builds.namespace=${builds}`, "--set", "listenerKey=k"],
    ...["--set", "controlPlaneUrl=http://127.0.0.1:1", "--set", `builds.registry=${registry.host}/agents`],
  ];
  const helm = process.env["PIERHEAD_TEST_HELM"] ?? "helm";
  const { stdout } = await run(helm, ["template", "r", "deploy/helm/pierhead-listener", "-n", release, ...values]);
  for (const parsed of parseAllDocuments(stdout)) {
    const document = parsed.toJS() as Manifest | null;
    if (document?.kind !== "NetworkPolicy") continue;
    const path = `/apis/networking.k8s.io/v1/namespaces/${document.metadata.namespace}/networkpolicies`;
    await make(world.plane.admin, path, document);
  }
}

test("databases accept connections of their own agent only", async () => {
  await using site = await openRestrictedSite(world);
  await addDisk(world.plane, world.node, `disk-${site.namespace}`, "Delete");
  const own = await site.deployed(runOf(site, world.images.first, {}));
  const other = await site.deployed(runOf(site, world.images.first));
  const podOf = (deploymentId: string, component: string) =>
    addressOf(site.namespace, `pierhead.dev/deployment-id=${deploymentId},app.kubernetes.io/component=${component}`);
  const agent = await podOf(own.deployment_id, "server");
  const stranger = await podOf(other.deployment_id, "server");
  for (const [component, port] of [
    ["postgres", 5432],
    ["redis", 6379],
  ] as const) {
    const database = await podOf(own.deployment_id, component);
    await becomes(agent, database, port, "open", `${component} for its agent`);
    await becomes(stranger, database, port, "closed", `${component} for another agent`);
  }
});

test("agents accept the gateway only, and builds reach the registry but no pod", async () => {
  await using site = await openRestrictedSite(world);
  const release = await world.plane.newNamespace();
  const builds = await world.plane.newNamespace();
  const withWorkers = newRun(site, world.images.first, { sizes: { ...roomy, queue: roomy }, spec: { queue_cpu: 0.1 } });
  // Its workers are the same program as its server.
  const artifact = { ...withWorkers.artifact, engine: "postgres" as const };
  const { deployment_id } = await site.deployed({ ...withWorkers, artifact } as RevisionRun);
  const podOf = (component: string) =>
    addressOf(site.namespace, `pierhead.dev/deployment-id=${deployment_id},app.kubernetes.io/component=${component}`);
  const [agent, worker] = [await podOf("server"), await podOf("queue")];
  const names = { "app.kubernetes.io/name": "pierhead-agent-gateway", "app.kubernetes.io/instance": "r" };
  const gateway = await startPod(release, "gateway", names);
  const stranger = await startPod(release, "stranger", {});
  const build = await startPod(builds, "build", { "pierhead.dev/build": "b" });
  for (const [from, to] of [
    [stranger, agent],
    [stranger, worker],
    [build, stranger],
    [gateway, build],
  ] as const) {
    assert.equal(await connection(from, to, 8_000), "open", "without the chart's policies");
  }

  await installPolicies(release, site.namespace, builds);
  await becomes(stranger, agent, 8_000, "closed", "an agent for another pod");
  await becomes(stranger, worker, 8_000, "closed", "a worker for another pod");
  await becomes(gateway, agent, 8_000, "open", "an agent for the gateway");
  await becomes(gateway, build, 8_000, "closed", "a build for another pod");
  await becomes(build, stranger, 8_000, "closed", "another pod for a build");
  await becomes(build, registry.hostname, Number(registry.port), "open", "the registry for a build");
});
