import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import type { LiveObject } from "../../src/compute/kubernetes/api/manifest.ts";
import type { DeploymentView } from "../../src/compute/kubernetes/watch/rollout.ts";
import { type ListenerProgram, startListenerProgram } from "../server/listener-program.ts";
import { eventually } from "../support/eventually.ts";
import { postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";
import { startTestServer } from "../support/server.ts";
import { grant, startWorld } from "./harness.ts";
import { openKeySite } from "./key-site.ts";
import { make, startPlane } from "./plane.ts";

let world: Awaited<ReturnType<typeof startWorld>>;
before(async () => {
  world = await startWorld();
});
after(() => world[Symbol.asyncDispose]());

test("three control planes on one database and two replicas of a listener apply nothing twice and lose no status", async (context) => {
  const { plane } = world;
  const postgres = await startPostgresServer();
  if (postgres === undefined) return context.skip(postgresSkipped);
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-listeners-"));
  const environment = {
    DATABASE_URL: postgres.url,
    PIERHEAD_COMPUTE: "none",
    PIERHEAD_ADMIN_KEY: randomBytes(24).toString("hex"),
    PIERHEAD_MASTER_KEY: randomBytes(32).toString("hex"),
  };
  const servers = [await startTestServer(environment)];
  servers.push(...(await Promise.all([startTestServer(environment), startTestServer(environment)])));
  const clients = servers.map(({ client }) => client);
  const client = (index: number) => clients[index % clients.length] as (typeof clients)[number];
  const namespace = await plane.newNamespace();
  await grant(plane, namespace);
  const { listener_key } = await client(0).createListener({
    body: { compute_type: "k8s", compute_id: "cluster", compute_config: { k8s_namespaces: [namespace] } },
  });
  const startReplica = (index: number) =>
    startListenerProgram({
      ...{
        PIERHEAD_URL: servers[index]?.url as string,
        PIERHEAD_LISTENER_KEY: listener_key,
        PIERHEAD_COMPUTE: "kubernetes",
      },
      PIERHEAD_KUBERNETES_URL: plane.address("listener").url,
      PIERHEAD_KUBERNETES_CA_FILE: plane.caFile,
      PIERHEAD_KUBERNETES_TOKEN_FILE: plane.tokenFile("listener"),
      PIERHEAD_KUBERNETES_NAMESPACES: namespace,
      PIERHEAD_DATA_DIR: path.join(directory, String(index)),
      PIERHEAD_AGENTS_URL: "https://{slug}.agents.example.com",
    });
  const replicas = [await startReplica(0), await startReplica(1)];
  try {
    const { resources } = await client(1).listListeners({});
    const listener_id = resources[0]?.id as string;
    const deploy = async (index: number) => {
      const made = await client(index).createDeployment({
        body: {
          name: `whole-${index}`,
          source: "external_docker",
          source_config: { listener_id },
          source_revision_config: { image_uri: "127.0.0.1:1/agent:1" },
          secrets: [
            { name: "POSTGRES_URI_CUSTOM", value: "postgresql://127.0.0.1:1/x" },
            { name: "REDIS_URI_CUSTOM", value: "redis://127.0.0.1:1" },
          ],
        },
      });
      return { deployment_id: made.id, revision_id: made.latest_revision_id as string };
    };
    const deployed = async (ids: { deployment_id: string; revision_id: string }, index: number) => {
      const revision = await client(index).waitForRevision(ids);
      assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    };
    const first = await Promise.all([0, 1, 2, 3].map(deploy));
    await Promise.all(first.map(deployed));
    // The leader dies silently while more is requested, and the other replica takes over.
    const asked = await Promise.all([4, 5].map(deploy));
    const leader = replicas.find(({ logged }) => logged().includes("this instance leads"));
    leader?.child.kill("SIGKILL");
    const patched = await Promise.all(
      first.map(async ({ deployment_id }, index) => {
        const body = { source_revision_config: { image_uri: "127.0.0.1:1/agent:2" } };
        const changed = await client(index).patchDeployment({ deployment_id, body });
        return { deployment_id, revision_id: changed.latest_revision_id as string };
      }),
    );
    await Promise.all([...asked, ...patched].map(deployed));
    const deployments = (
      await plane.admin.list<DeploymentView & LiveObject>("Deployment", namespace, {}, AbortSignal.timeout(20_000))
    ).items;
    assert.equal(deployments.length, 6);
    for (const { metadata } of deployments) {
      const isPatched = first.some(
        ({ deployment_id }) => metadata.labels?.["pierhead.dev/deployment-id"] === deployment_id,
      );
      assert.equal(metadata.generation, isPatched ? 2 : 1, `${metadata.name}: one write for each revision`);
    }
    const { url } = await client(2).getDeployment({ deployment_id: first[0]?.deployment_id as string });
    assert.match(url ?? "", /^https:\/\/whole-0-[0-9a-f]{8}\.agents\.example\.com$/);
    await Promise.all(first.map(({ deployment_id }, index) => client(index).deleteDeployment({ deployment_id })));
    await eventually(
      async () =>
        (
          await plane.admin.list(
            "ConfigMap",
            namespace,
            { labelSelector: "app.kubernetes.io/managed-by=pierhead" },
            AbortSignal.timeout(20_000),
          )
        ).items.length,
      (left) => left === 2,
      { timeoutMs: 60_000 },
    );
  } finally {
    for (const replica of replicas) await replica.stop();
    for (const server of servers) await server[Symbol.asyncDispose]();
    await postgres.stop();
    await rm(directory, { recursive: true, force: true });
  }
});

test("of two clusters with the same listener key one gets the session, and the other reports that it waits", async () => {
  await using other = await startPlane(process.env["PIERHEAD_TEST_KUBEPLANE"] as string);
  await using site = await openKeySite(["agents"]);
  // The chart's own names, which are the same in every cluster.
  for (const plane of [world.plane, other]) {
    await make(plane.admin, "/api/v1/namespaces", { metadata: { name: "agents" } });
    await grant(plane, "agents");
  }
  const first = await site.start(world.plane);
  await says(first, "listener session opened");
  const second = await site.start(other);
  await says(second, "Another instance of this listener holds the session");
  assert.equal(second.logged().includes("listener session opened"), false);
  assert.equal(first.logged().includes("another instance leads"), false);
  await first.stop();
  await says(second, "listener session opened");
});

test("without public addresses, agents of several namespaces get addresses in their own namespace", async () => {
  const namespaces = [await world.plane.newNamespace(), await world.plane.newNamespace()];
  for (const namespace of namespaces) await grant(world.plane, namespace);
  await using site = await openKeySite(namespaces);
  await says(await site.start(world.plane), "listener session opened");
  for (const [index, namespace] of namespaces.entries()) {
    const listener_config = index === 0 ? null : { k8s_namespace: namespace };
    const { url } = await site.server.client.createDeployment({
      body: {
        name: `placed-${index}`,
        source: "external_docker",
        source_config: { listener_id: site.listener_id, listener_config },
        source_revision_config: { image_uri: "127.0.0.1:1/agent:1" },
      },
    });
    assert.match(url ?? "", new RegExp(`^http://placed-${index}-[0-9a-f]{8}\\.${namespace}\\.svc:8000$`));
  }
});

const says = (replica: ListenerProgram, words: string) => eventually(replica.logged, (log) => log.includes(words));
