import assert from "node:assert/strict";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { get, type IncomingMessage } from "node:http";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, before, suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { ClusterPolicy } from "../../src/compute/kubernetes/cluster-context.ts";
import type { PodView } from "../../src/compute/kubernetes/watch/rollout.ts";
import type { DeploymentReport, RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { healthOf } from "../../src/domain/deployment-health.ts";
import { elsewhere, grant, newRun, openSite, type Site, sizes } from "../kubeplane/harness.ts";
import { openKeySite } from "../kubeplane/key-site.ts";
import { type Plane, startPlane } from "../kubeplane/plane.ts";
import { eventually } from "../support/eventually.ts";
import { agentProgram, crashingProgram } from "./agent.ts";
import { addDisk } from "./disk.ts";
import { pushAgent, pushPostgres, pushRedis } from "./images.ts";
import { type RealNode, startRealNode } from "./real-node.ts";

let plane: Plane;
let node: RealNode;
let policy: { postgresImage: string; redisImage: string };
const images: Record<"first" | "second" | "crashing", string> = { first: "", second: "", crashing: "" };

before(async () => {
  const program = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (program === undefined) throw new Error("run this by `npm run test:cluster`");
  plane = await startPlane(program);
  node = await startRealNode(plane, program);
  policy = { postgresImage: await pushPostgres(node.images), redisImage: await pushRedis(node.images) };
  images.first = await pushAgent(node.images, "agent:1", agentProgram("one"));
  images.second = await pushAgent(node.images, "agent:2", agentProgram("two"));
  images.crashing = await pushAgent(node.images, "agent:crashing", crashingProgram);
});
after(async () => {
  await node?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
});

/** Opens a namespace that enforces the restricted Pod Security Standard, and empties it at the end. */
async function openRestrictedSite(changed: Partial<ClusterPolicy> = {}): Promise<Site> {
  const site = await openSite(plane, { ...policy, ...changed });
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  const call = { method: "PATCH", path: `/api/v1/namespaces/${site.namespace}`, type: "merge" } as const;
  await plane.admin.call({ ...call, body: { metadata: { labels } }, signal: AbortSignal.timeout(10_000) });
  const close = site[Symbol.asyncDispose].bind(site);
  site[Symbol.asyncDispose] = async () => {
    await close();
    await eventually(
      () => site.list("Pod"),
      (pods) => pods.length === 0,
      { timeoutMs: 90_000, what: "no pod left" },
    );
  };
  return site;
}

async function serviceUrl({ namespace }: Pick<Site, "namespace">, slug: string): Promise<string> {
  const signal = AbortSignal.timeout(10_000);
  const service = await plane.admin.get<{ spec: { clusterIP: string } }>("Service", namespace, slug, signal);
  return `http://${service?.spec.clusterIP}:8000`;
}

/** Reads a page on a connection of its own. */
const read = async (url: string) => {
  const request = get(url, { agent: false, signal: AbortSignal.timeout(20_000) });
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  return `${answer.statusCode} ${await text(answer)}`;
};

/** Sizes with which a Node program starts in a few seconds. */
const roomy = { ...sizes, cpuLimitCores: 1, memoryLimitMib: 512 };
const runOf = (site: Site, image: string, secrets?: Record<string, string>) =>
  newRun(site, image, { sizes: roomy }, secrets);

const isReady = ({ phase }: DeploymentReport["replicas"][number]) => phase === "ready";
const isDatabaseFile = (name: string) => path.basename(name) === "PG_VERSION";

async function phaseOfDisk(name: string): Promise<string | undefined> {
  const call = {
    method: "GET",
    path: `/api/v1/persistentvolumes/${name}`,
    signal: AbortSignal.timeout(10_000),
  } as const;
  return (await plane.admin.call<{ status?: { phase?: string } }>(call)).status?.phase;
}

const setUnschedulable = (unschedulable: boolean) =>
  plane.admin.call({
    ...{ method: "PATCH", path: "/api/v1/nodes/node-1", type: "merge" },
    body: { spec: { unschedulable } },
    signal: AbortSignal.timeout(10_000),
  });

/** Does what `kubectl drain` does: no new pods, and the present ones are evicted. */
async function drain(site: Site): Promise<void> {
  await setUnschedulable(true);
  for (const { metadata } of await site.list("Pod")) {
    await plane.admin.call({
      method: "POST",
      path: `/api/v1/namespaces/${site.namespace}/pods/${metadata.name}/eviction`,
      body: { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: metadata.name } },
      signal: AbortSignal.timeout(10_000),
    });
  }
}

/** Health as the control plane derives it from a report on a deployment that served. */
function healthWordOf(report: DeploymentReport): string {
  const activeRevisionId = report.serving_revision_id;
  const settled = { status: "READY", isUnderWay: false, latest: null, replicasMin: 1 } as const;
  return healthOf({ ...settled, activeRevisionId, report }).word;
}

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
    async () => (await plane.admin.list<PodView>("Pod", site.namespace, {}, AbortSignal.timeout(10_000))).items,
    (pods) => pods.length === count && pods.every(isPodReady),
    { timeoutMs: 90_000, what: `${count} ready pods` },
  );

const isPodReady = ({ metadata, status }: PodView) =>
  metadata.deletionTimestamp === undefined &&
  (status.conditions ?? []).some(({ type, status: holds }) => type === "Ready" && holds === "True");

test("an update, more replicas and fewer under load fail no request, and each pod's output reaches the control plane", async () => {
  await using site = await openRestrictedSite();
  const { deployment_id, slug } = await site.deployed(runOf(site, images.first));
  const url = await serviceUrl(site, slug);
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
    await roll(scaled(images.second, 3), 3);
    await roll(scaled(images.second, 1), 1);
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
  const namespace = await plane.newNamespace();
  await grant(plane, namespace);
  await using site = await openKeySite([namespace]);
  const { client } = site.server;
  const replicas = [await site.start(plane), await site.start(plane)];
  const created = await client.createDeployment({
    body: {
      name: "handed-over",
      source: "external_docker",
      source_config: { listener_id: site.listener_id },
      source_revision_config: { image_uri: images.first },
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
  const url = await serviceUrl({ namespace }, slug);
  const leads = ({ logged }: (typeof replicas)[number]) => logged().includes("this instance leads");
  const [leader, ...others] = replicas.filter(leads);
  assert.ok(leader !== undefined && others.length === 0);
  const answers = await underLoad(`${url}/`, async () => {
    const body = { source_revision_config: { image_uri: images.second } };
    const changed = await client.patchDeployment({ deployment_id: created.id, body });
    // Two pods: the rollout has begun.
    await eventually(
      async () => (await plane.admin.list("Pod", namespace, {}, AbortSignal.timeout(10_000))).items,
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

test("databases really start, keep their data when their node is drained, and a deletion leaves nothing", async () => {
  await using site = await openRestrictedSite();
  const disk = `disk-${site.namespace}`;
  await addDisk(plane, node, disk);
  const { deployment_id, slug } = await site.deployed(runOf(site, images.first, {}));
  const url = await serviceUrl(site, slug);
  assert.equal(await read(`${url}/postgres`), "200 agent 50");
  assert.equal(await read(`${url}/redis`), "200 value of one");
  assert.equal(await read(`${url}/visits`), "200 1");
  await drain(site);
  const { cause } = await site.reported(deployment_id, (report) => report.cause?.reason === "Unschedulable");
  assert.match(cause?.message ?? "", /unschedulable/);
  await setUnschedulable(false);
  await site.reported(deployment_id, (report) => report.cause === null && report.replicas.some(isReady));
  assert.equal(await read(`${url}/visits`), "200 2");
  site.controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
  await site.reported(deployment_id, ({ deleted }) => deleted);
  const kinds = ["Pod", "Deployment", "StatefulSet", "Service", "ConfigMap", "Secret", "PersistentVolumeClaim"];
  for (const kind of kinds) {
    const names = (await site.list(kind)).map(({ metadata }) => metadata.name);
    assert.deepEqual(
      names.filter((name) => name.includes(slug)),
      [],
      kind,
    );
  }
  await eventually(
    () => phaseOfDisk(disk),
    (phase) => phase === "Released",
    { timeoutMs: 30_000, what: "the disk is free" },
  );
});

test("with the data policy retain, a deletion keeps the disk and its content", async () => {
  await using site = await openRestrictedSite({ dataPolicy: "retain" });
  const disk = `disk-${site.namespace}`;
  await addDisk(plane, node, disk);
  const { deployment_id, slug } = await site.deployed(runOf(site, images.first, {}));
  assert.equal(await read(`${await serviceUrl(site, slug)}/visits`), "200 1");
  site.controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
  await site.reported(deployment_id, ({ deleted }) => deleted);
  assert.deepEqual(await site.list("Pod"), []);
  const claims = await site.list("PersistentVolumeClaim");
  assert.deepEqual(
    claims.map(({ metadata }) => metadata.name),
    [`data-${slug}-postgres-0`],
  );
  assert.equal(await phaseOfDisk(disk), "Bound");
  assert.ok((await readdir(path.join(node.directory, "disks", disk), { recursive: true })).some(isDatabaseFile));
});

suite("failures", { concurrency: 3 }, () => {
  test("a first revision that keeps exiting fails with its last words, and its pods are stopped", async () => {
    await using site = await openRestrictedSite();
    const deployment_id = "5d2f6ab0-1f9c-4d9b-8f5f-6c2f6a3f0001";
    site.controlPlane.assign({ deployment_id, target: runOf(site, images.crashing) });
    const { cause } = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.equal(cause?.reason, "Exited");
    assert.equal(cause?.exit_code, 3);
    assert.deepEqual(cause?.last_lines, ["the model is not configured"]);
    await eventually(
      () => site.list("Pod"),
      (pods) => pods.length === 0,
      { timeoutMs: 60_000, what: "no pod left" },
    );
  });

  test("a server that begins to end soon after each start is reported with its streak and its last words", async () => {
    await using site = await openRestrictedSite();
    const { deployment_id, slug } = await site.deployed(runOf(site, images.first));
    const url = await serviceUrl(site, slug);
    const report = await eventually(
      async () => {
        await read(`${url}/crash`).catch(() => {});
        return site.controlPlane.reports.get(deployment_id);
      },
      (one) => (one?.crash_streak ?? 0) >= 3,
      { timeoutMs: 120_000, what: "a streak of crashes" },
    );
    assert.equal(report?.cause?.reason, "Exited");
    assert.match(report?.cause?.last_lines.join("\n") ?? "", /out of tokens/);
  });

  test("an image that does not exist is named while the rollout waits, and the one before goes on serving", async () => {
    await using site = await openRestrictedSite();
    const { deployment_id, slug } = await site.deployed(runOf(site, images.first));
    site.controlPlane.assign({ deployment_id, target: runOf(site, `${images.first}-missing`) });
    const waiting = await site.reported(deployment_id, ({ cause }) => cause?.reason === "ImagePull");
    assert.match(waiting.cause?.message ?? "", /agent:1-missing cannot be pulled/);
    await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.equal(await read(`${await serviceUrl(site, slug)}/`), "200 one");
  });

  test("a server that uses more memory than its limit is reported as crash looping, with the limit as the cause", async () => {
    await using site = await openRestrictedSite();
    const { deployment_id, slug } = await site.deployed(runOf(site, images.first));
    const url = await serviceUrl(site, slug);
    const report = await eventually(
      async () => {
        await read(`${url}/fill-memory`).catch(() => {});
        return site.controlPlane.reports.get(deployment_id);
      },
      (one) => (one?.crash_streak ?? 0) >= 3 && one?.cause?.reason === "OutOfMemory",
      { timeoutMs: 120_000, what: "a streak of kills" },
    );
    assert.equal(report?.cause?.exit_code, 137);
    assert.match(report?.cause?.message ?? "", /more memory than its limit\. Raise the limit/);
    assert.equal(healthWordOf(report as DeploymentReport), "crash_looping");
  });

  test("a revision that never gets healthy is described while it starts, and fails at its deadline without pods", async () => {
    await using site = await openRestrictedSite();
    const deployment_id = "5d2f6ab0-1f9c-4d9b-8f5f-6c2f6a3f0002";
    const run = runOf(site, images.first);
    const artifact = { ...run.artifact, health_path: "/unhealthy" } as RevisionRun["artifact"];
    site.controlPlane.assign({ deployment_id, target: { ...run, artifact, start_timeout_ms: 20_000 } });
    const waiting = await site.reported(deployment_id, ({ cause }) => cause?.reason === "NotHealthy");
    assert.equal(waiting.target_phase, "starting");
    assert.match(waiting.cause?.message ?? "", /runs, but its health check does not pass yet/);
    const { cause } = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.equal(cause?.reason, "NotHealthy");
    await eventually(
      () => site.list("Pod"),
      (pods) => pods.length === 0,
      { timeoutMs: 60_000, what: "no pod left" },
    );
    await site.reported(deployment_id, ({ replicas }) => replicas.length === 0);
  });
});
