import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, test } from "node:test";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import { grant } from "../kubeplane/harness.ts";
import { findKubectl } from "../kubeplane/helm.ts";
import { openKeySite } from "../kubeplane/key-site.ts";
import { eventually } from "../support/eventually.ts";
import { read, serviceUrl, startClusterWorld } from "./cluster-world.ts";
import { addDisk } from "./disk.ts";
import { address } from "./real-node.ts";

const world = await startClusterWorld();
after(() => world[Symbol.asyncDispose]());
const { plane, node, policy, images } = world;

/** Two contexts of kubectl for the cluster, as an operator has them for two. */
async function kubeconfig(): Promise<string> {
  const ca = (await readFile(plane.caFile)).toString("base64");
  const token = await readFile(plane.tokenFile("admin"), "utf8");
  const { url: server } = plane.address("admin");
  return JSON.stringify({
    ...{ apiVersion: "v1", kind: "Config" },
    clusters: [{ name: "cluster", cluster: { server, "certificate-authority-data": ca } }],
    users: [{ name: "operator", user: { token } }],
    contexts: ["old", "new"].map((name) => ({ name, context: { cluster: "cluster", user: "operator" } })),
  });
}

test("moves an agent with its database to another listener, by kubectl and the programs in its pods", async () => {
  const kubectl = await findKubectl();
  assert.ok(kubectl, "kubectl is missing, and so is the npm package that has it");
  const [from, to] = [await plane.newNamespace(), await plane.newNamespace()];
  for (const namespace of [from, to]) {
    await grant(plane, namespace);
    await addDisk(plane, node, `of-${namespace}`);
  }
  await using site = await openKeySite([from], {
    server: { HOST: address },
    listener: {
      PIERHEAD_KUBERNETES_POSTGRES_IMAGE: policy.postgresImage,
      PIERHEAD_KUBERNETES_REDIS_IMAGE: policy.redisImage,
    },
  });
  await site.start(plane);
  await site.start(plane, { name: "other", namespaces: [to] });
  const { client, url, apiKey } = site.server;
  await eventually(
    () => client.listListeners({}),
    ({ resources }) => resources.length === 2 && resources.every(({ status }) => status === "CONNECTED"),
    { timeoutMs: 30_000, what: "both listeners" },
  );
  const { id, latest_revision_id } = await client.createDeployment({
    body: {
      ...{ name: "support", source: "external_docker", secrets: [{ name: "TOKEN", value: "hunter2" }] },
      source_config: {
        listener_id: site.listener_id,
        resource_spec: {
          ...{ cpu: 0.1, cpu_limit: 1, memory_mb: 256, memory_limit_mb: 512, max_scale: 1 },
          ...{ redis_cpu: 0.1, redis_cpu_limit: 0.5, redis_memory_mb: 128 },
          ...{ db_cpu: 0.1, db_cpu_limit: 0.5, db_memory_mb: 256, db_storage_gi: 1 },
        },
      },
      source_revision_config: { image_uri: images.first },
    },
  });
  const revision = await client.waitForRevision({ deployment_id: id, revision_id: latest_revision_id as string });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  const visit = async (namespace: string, deploymentId: string) => {
    const { url: ofAgent } = await client.getDeployment({ deployment_id: deploymentId });
    const [slug = ""] = new URL(ofAgent as string).hostname.split(".");
    return read(`${await serviceUrl(world, { namespace }, slug)}/visits`);
  };
  const isServed = (answer: string) => answer.startsWith("200");
  await eventually(() => visit(from, id), isServed, { timeoutMs: 60_000, what: "the database" });
  const before = Number((await visit(from, id)).split(" ")[1]);

  await using at = await createDirectory({ kubeconfig: await kubeconfig() });
  const env = {
    ...{ PIERHEAD_URL: url, PIERHEAD_API_KEY: apiKey, KUBECONFIG: path.join(at.directory, "kubeconfig") },
    HOME: at.directory, // of its cache
    PATH: [path.dirname(kubectl), process.env["PATH"]].join(path.delimiter),
  };
  const where = ["--to-listener", "other", "--from-kubectl", "old", "--to-kubectl", "new"];
  const moved = await runCli(["move", "support", ...where, "--yes", "--json"], { env });
  assert.equal(moved.code, 0, moved.stderr);
  const { outcome, to: target, tables } = JSON.parse(moved.stdout);
  assert.equal(outcome, "moved");
  assert.deepEqual(tables, [{ name: "public.visits", rows: before }]);
  assert.equal(await visit(to, target.deployment_id), `200 ${before + 1}`);
  assert.match(await visit(from, id), /^500 .*read-only/, "the old one takes no writes");

  const finished = await runCli(["move", "support", ...where, "--finish", "--yes", "--json"], { env });
  assert.equal(finished.code, 0, finished.stderr);
  await client.waitForDeletion({ deployment_id: id }, { timeoutMs: 60_000 });
  assert.equal(await visit(to, target.deployment_id), `200 ${before + 2}`);
});
