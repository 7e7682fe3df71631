import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";
import { after, before, test } from "node:test";
import { elsewhere, grant } from "../kubeplane/harness.ts";
import { openKeySite } from "../kubeplane/key-site.ts";
import { type Plane, startPlane } from "../kubeplane/plane.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { agentProgram } from "./agent.ts";
import { pushBuildkit, pushPusher } from "./buildkit.ts";
import { addChartRegistry } from "./chart-registry.ts";
import { pushAgent } from "./images.ts";
import { address, type RealNode, startRealNode } from "./real-node.ts";

let plane: Plane;
let node: RealNode;
let opened: Awaited<ReturnType<typeof openSiteWithRegistry>>;
before(async () => {
  const program = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (program === undefined) throw new Error("run this by `npm run test:cluster`");
  plane = await startPlane(program);
  node = await startRealNode(plane, program);
  opened = await openSiteWithRegistry();
});
after(async () => {
  await opened?.site[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
});

/** A control plane and a listener that builds for, and pulls from, the registry of its chart. Its node port is taken once. */
async function openSiteWithRegistry() {
  const [namespace, builds] = [await plane.newNamespace(), await plane.newNamespace()];
  await grant(plane, namespace);
  await grant(plane, builds, "build-rules.json");
  const registry = await addChartRegistry(plane, node, { agents: namespace, builds });
  const site = await openKeySite([namespace], {
    server: { HOST: address, PIERHEAD_ALLOW_LOCAL_SOURCES: "1" },
    listener: {
      ...registry.settings,
      PIERHEAD_KUBERNETES_BUILD_NAMESPACE: builds,
      PIERHEAD_KUBERNETES_BUILD_IMAGE: await pushBuildkit(node.images),
      PIERHEAD_KUBERNETES_BUILD_PUSH_IMAGE: await pushPusher(node.images),
    },
  });
  await site.start(plane);
  await eventually(
    () => site.server.client.getListener({ listener_id: site.listener_id }),
    ({ status }) => status === "CONNECTED",
    { timeoutMs: 30_000, what: "the listener's session" },
  );
  return { namespace, builds, registry, site };
}

const resource_spec = { cpu: 0.1, cpu_limit: 1, memory_mb: 128, max_scale: 1 };
const secrets = Object.entries(elsewhere).map(([name, value]) => ({ name, value }));

async function imagesOfPods(namespace: string): Promise<string[]> {
  const signal = AbortSignal.timeout(10_000);
  const pods = await plane.admin.list<{ spec: { containers: { image: string }[] } }>("Pod", namespace, {}, signal);
  return pods.items.flatMap(({ spec }) => spec.containers.map(({ image }) => image));
}

test("an image that was pushed to the Service of the chart's registry is pulled from its node port with a password", async () => {
  const { namespace, registry, site } = opened;
  const { client } = site.server;
  const image_uri = await registry.copy(await pushAgent(node.images, "agent:1", agentProgram("one")));
  assert.equal((await fetch(`http://${registry.pullHost}/v2/`)).status, 401, "the node port asks for a password");
  const { id, latest_revision_id } = await client.createDeployment({
    body: {
      ...{ name: "from-chart", source: "external_docker", secrets },
      source_config: { listener_id: site.listener_id, resource_spec },
      source_revision_config: { image_uri },
    },
  });
  const ids = { deployment_id: id, revision_id: latest_revision_id as string };
  const revision = await client.waitForRevision(ids, { timeoutMs: 120_000 });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  assert.deepEqual(await imagesOfPods(namespace), [`${registry.pullHost}/agents:1`]);
  await client.deleteDeployment({ deployment_id: id });
  await client.waitForDeletion({ deployment_id: id }, { timeoutMs: 60_000 });
});

test("a build pushes to the registry of the chart, its pod runs from there, and deletion removes the image", async () => {
  const { namespace, builds, registry, site } = opened;
  const { client } = site.server;
  await using repository = await createAgentRepository({
    "pierhead.json": JSON.stringify({ dockerfile: "Dockerfile", health: "/ok" }),
    Dockerfile: 'FROM scratch\nCOPY answer /answer\nENTRYPOINT ["/answer"]\n',
  });
  const program = path.join(repository.directory, "answer");
  execFileSync("go", ["build", "-trimpath", "-o", program, path.join(import.meta.dirname, "answer.go")], {
    env: { ...process.env, CGO_ENABLED: "0" },
  });
  await repository.commit({});
  const { id, latest_revision_id, url } = await client.createDeployment({
    body: {
      ...{ name: "built", source: "github", secrets },
      source_config: {
        ...{ listener_id: site.listener_id, repo_url: repository.url, build_on_push: false },
        resource_spec,
      },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const revision_id = latest_revision_id as string;
  const revision = await client.waitForRevision({ deployment_id: id, revision_id }, { timeoutMs: 300_000 });
  const { logs } = await client.readBuildLogs({ deployment_id: id, revision_id, body: { limit: 500 } });
  const log = logs.map(({ message }: { message: string }) => message).join("\n");
  assert.equal(revision.status, "DEPLOYED", `${revision.status_message}\n${log}`);
  const [image = "", ...others] = await imagesOfPods(namespace);
  assert.deepEqual(others, []);
  assert.ok(image.startsWith(`${registry.pullHost}/agents@sha256:`), image);
  const [slug = ""] = new URL(url as string).hostname.split(".");
  const signal = AbortSignal.timeout(10_000);
  const service = await plane.admin.get<{ spec: { clusterIP: string } }>("Service", namespace, slug, signal);
  assert.equal(await (await fetch(`http://${service?.spec.clusterIP}:8000/`)).text(), "built in the cluster");

  await client.deleteDeployment({ deployment_id: id });
  await client.waitForDeletion({ deployment_id: id }, { timeoutMs: 60_000 });
  const left = async () => [
    ...(await registry.tags()).filter((tag) => tag !== "1"),
    ...(await plane.admin.list("Job", builds, {}, AbortSignal.timeout(10_000))).items,
  ];
  await eventually(left, ({ length }) => length === 0, {
    timeoutMs: 120_000,
    what: "no image of the build and no Job",
  });
});
