import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { PodView } from "../../src/compute/kubernetes/watch/rollout.ts";
import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { elsewhere, grant, newRun, type Site } from "../kubeplane/harness.ts";
import { openKeySite } from "../kubeplane/key-site.ts";
import { eventually } from "../support/eventually.ts";
import { isReady, openRestrictedSite, read, roomy, runOf, serviceUrl, startClusterWorld } from "./cluster-world.ts";

const world = await startClusterWorld();
after(() => world[Symbol.asyncDispose]());

/** Sends requests, each on a connection of its own, while `act` runs. @returns how often each answer came */
async function underLoad(url: string, act: () => Promise<unknown>): Promise<Map<string, number>> {
  const stopping = new AbortController();
  const answers = new Map<string, number>();
  const callers = Array.from({ length: 4 }, async () => {
    while (!stopping.signal.aborted) {
      const answer = await read(url).catch((error) => `failed: ${error.cause ?? error}`);
      answers.set(answer, (answers.get(answer) ?? 0) + 1);
      await sleep(50);
    }
  });
  await act().finally(() => stopping.abort());
  await Promise.all(callers);
  return answers;
}

/** Waits until this many pods are left, all of them ready. */
const podsAre = (site: Pick<Site, "namespace">, count: number) =>
  eventually(
    async () => (await world.plane.admin.list<PodView>("Pod", site.namespace, {}, AbortSignal.timeout(10_000))).items,
    (pods) => pods.length === count && pods.every(isPodReady),
    { timeoutMs: 90_000, what: `${count} ready pods` },
  );

const isPodReady = ({ metadata, status }: PodView) =>
  metadata.deletionTimestamp === undefined &&
  (status.conditions ?? []).some(({ type, status: holds }) => type === "Ready" && holds === "True");

test("an update, more replicas and fewer under load fail no request, and each pod's output reaches the control plane", async () => {
  await using site = await openRestrictedSite(world);
  const { deployment_id, slug } = await site.deployed(runOf(site, world.images.first));
  const url = await serviceUrl(world, site, slug);
  assert.equal(await read(`${url}/`), "200 one");
  const roll = async (run: RevisionRun, replicas: number) => {
    site.controlPlane.assign({ deployment_id, target: run });
    await site.reported(deployment_id, ({ serving_revision_id: id }) => id === run.revision_id);
    // The old pods end after the new ones serve, and their callers must not notice.
    await podsAre(site, replicas);
    await site.reported(deployment_id, (report) => report.replicas.filter(isReady).length === replicas);
  };
  const scaled = (image: string, minReplicas: number) =>
    newRun(site, image, { sizes: { ...roomy, minReplicas, maxReplicas: minReplicas } });
  const answers = await underLoad(`${url}/`, async () => {
    await roll(scaled(world.images.second, 3), 3);
    await roll(scaled(world.images.second, 1), 1);
    assert.equal(await read(`${url}/`), "200 two");
  });
  assert.deepEqual([...answers.keys()].toSorted(), ["200 one", "200 two"], JSON.stringify([...answers]));
  const logged = await eventually(
    () => [...site.controlPlane.lines.values()].map(({ message }) => message),
    (lines) => lines.includes("agent one listens") && lines.filter((line) => line === "agent two listens").length >= 4,
    { what: "the lines of five pods" },
  );
  assert.ok(logged.length >= 5);
});

test("the leading listener is killed in the middle of an update: the other one completes it and no request fails", async () => {
  const namespace = await world.plane.newNamespace();
  await grant(world.plane, namespace);
  await using site = await openKeySite([namespace]);
  const { client } = site.server;
  const replicas = [await site.start(world.plane), await site.start(world.plane)];
  const created = await client.createDeployment({
    body: {
      name: "handed-over",
      source: "external_docker",
      source_config: { listener_id: site.listener_id },
      source_revision_config: { image_uri: world.images.first },
      secrets: Object.entries(elsewhere).map(([name, value]) => ({ name, value })),
    },
  });
  const deployed = async (revision_id: string | null) => {
    const ids = { deployment_id: created.id, revision_id: revision_id as string };
    const revision = await client.waitForRevision(ids);
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  };
  await deployed(created.latest_revision_id);
  const slug = new URL(created.url as string).hostname.split(".")[0] as string;
  const url = await serviceUrl(world, { namespace }, slug);
  const leads = ({ logged }: (typeof replicas)[number]) => logged().includes("this instance leads");
  const [leader, ...others] = replicas.filter(leads);
  assert.ok(leader !== undefined && others.length === 0);
  const answers = await underLoad(`${url}/`, async () => {
    const body = { source_revision_config: { image_uri: world.images.second } };
    const changed = await client.patchDeployment({ deployment_id: created.id, body });
    // Two pods: the rollout has begun.
    await eventually(
      async () => (await world.plane.admin.list("Pod", namespace, {}, AbortSignal.timeout(10_000))).items,
      (pods) => pods.length > 1,
      { timeoutMs: 60_000, what: "the new pod" },
    );
    leader.child.kill("SIGKILL");
    await deployed(changed.latest_revision_id);
    assert.ok(replicas.every(leads), "the other one leads now");
    await podsAre({ namespace }, 1);
  });
  assert.deepEqual([...answers.keys()].toSorted(), ["200 one", "200 two"], JSON.stringify([...answers]));
  const { health } = await client.getDeployment({ deployment_id: created.id });
  assert.equal(health.status, "live");
  await client.deleteDeployment({ deployment_id: created.id });
  await client.waitForDeletion({ deployment_id: created.id });
});
