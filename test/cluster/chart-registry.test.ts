import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { elsewhere, grant } from "../kubeplane/harness.ts";
import { openKeySite } from "../kubeplane/key-site.ts";
import { type Plane, startPlane } from "../kubeplane/plane.ts";
import { eventually } from "../support/eventually.ts";
import { agentProgram } from "./agent.ts";
import { addChartRegistry } from "./chart-registry.ts";
import { pushAgent } from "./images.ts";
import { address, type RealNode, startRealNode } from "./real-node.ts";

let plane: Plane;
let node: RealNode;
before(async () => {
  const program = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (program === undefined) throw new Error("run this by `npm run test:cluster`");
  plane = await startPlane(program);
  node = await startRealNode(plane, program);
});
after(async () => {
  await node?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
});

test("an image that was pushed to the Service of the chart's registry is pulled from its node port with a password", async () => {
  const [namespace, builds] = [await plane.newNamespace(), await plane.newNamespace()];
  await grant(plane, namespace);
  await grant(plane, builds, "build-rules.json");
  const registry = await addChartRegistry(plane, node, { agents: namespace, builds });
  const image_uri = await registry.copy(await pushAgent(node.images, "agent:1", agentProgram("one")));
  assert.equal((await fetch(`http://${registry.pullHost}/v2/`)).status, 401, "the node port asks for a password");
  await using site = await openKeySite([namespace], {
    server: { HOST: address },
    listener: {
      ...registry.settings,
      PIERHEAD_KUBERNETES_BUILD_NAMESPACE: builds,
      PIERHEAD_KUBERNETES_BUILD_PUSH_IMAGE: "pierhead:1",
    },
  });
  const { client } = site.server;
  await site.start(plane);
  await eventually(
    () => client.getListener({ listener_id: site.listener_id }),
    ({ status }) => status === "CONNECTED",
    { timeoutMs: 30_000, what: "the listener's session" },
  );
  const { id, latest_revision_id } = await client.createDeployment({
    body: {
      ...{ name: "from-chart", source: "external_docker" },
      source_config: {
        listener_id: site.listener_id,
        resource_spec: { cpu: 0.1, cpu_limit: 1, memory_mb: 128, max_scale: 1 },
      },
      source_revision_config: { image_uri },
      secrets: Object.entries(elsewhere).map(([name, value]) => ({ name, value })),
    },
  });
  const ids = { deployment_id: id, revision_id: latest_revision_id as string };
  const revision = await client.waitForRevision(ids, { timeoutMs: 120_000 });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  const signal = AbortSignal.timeout(10_000);
  const pods = await plane.admin.list<{ spec: { containers: { image: string }[] } }>("Pod", namespace, {}, signal);
  assert.deepEqual(
    pods.items.flatMap(({ spec }) => spec.containers.map(({ image }) => image)),
    [`${registry.pullHost}/agents:1`],
  );
  await client.deleteDeployment({ deployment_id: id });
  await client.waitForDeletion({ deployment_id: id }, { timeoutMs: 60_000 });
});
