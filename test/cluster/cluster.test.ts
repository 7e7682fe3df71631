import assert from "node:assert/strict";
import { once } from "node:events";
import { chown, mkdir } from "node:fs/promises";
import { get, type IncomingMessage } from "node:http";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { newRun, openSite, type Site, sizes } from "../kubeplane/harness.ts";
import { make, type Plane, startPlane } from "../kubeplane/plane.ts";
import { eventually } from "../support/eventually.ts";
import { agentProgram, crashingProgram } from "./agent.ts";
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
async function openRestrictedSite(): Promise<Site> {
  const site = await openSite(plane, policy);
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

/** Creates the disk that the next claim gets. */
async function addDisk(name: string): Promise<void> {
  const directory = path.join(node.directory, "disks", name);
  await mkdir(directory, { recursive: true });
  await chown(directory, 999, 999);
  await make(plane.admin, "/api/v1/persistentvolumes", {
    metadata: { name },
    spec: {
      capacity: { storage: "5Gi" },
      accessModes: ["ReadWriteOnce"],
      storageClassName: "",
      persistentVolumeReclaimPolicy: "Retain",
      hostPath: { path: directory },
    },
  });
}

async function serviceUrl(site: Site, slug: string): Promise<string> {
  const service = await site.get<{ spec: { clusterIP: string } }>("Service", slug);
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

test("a prepared image answers through its Service, and an update under load fails no request", async () => {
  await using site = await openRestrictedSite();
  const { deployment_id, slug } = await site.deployed(runOf(site, images.first));
  const url = await serviceUrl(site, slug);
  assert.equal(await read(`${url}/`), "200 one");
  const second = runOf(site, images.second);
  const stopping = new AbortController();
  const answers = new Map<string, number>();
  const callers = Array.from({ length: 4 }, async () => {
    while (!stopping.signal.aborted) {
      const answer = await read(`${url}/`).catch((error) => `failed: ${error.cause ?? error}`);
      answers.set(answer, (answers.get(answer) ?? 0) + 1);
      await sleep(50);
    }
  });
  site.controlPlane.assign({ deployment_id, target: second });
  await site.reported(deployment_id, ({ serving_revision_id: id }) => id === second.revision_id);
  // The old pod ends after the new one serves, and its callers must not notice.
  await eventually(
    () => site.list("Pod"),
    (pods) => pods.length === 1 && answers.has("200 two"),
    { timeoutMs: 60_000, what: "only the new pod" },
  );
  stopping.abort();
  await Promise.all(callers);
  assert.deepEqual([...answers.keys()].toSorted(), ["200 one", "200 two"], JSON.stringify([...answers]));
});

test("a deployment starts its own PostgreSQL and Redis, reaches both, and its deletion leaves nothing", async () => {
  await using site = await openRestrictedSite();
  await addDisk(`disk-${site.namespace}`);
  const { deployment_id, slug } = await site.deployed(runOf(site, images.first, {}));
  const url = await serviceUrl(site, slug);
  assert.equal(await read(`${url}/postgres`), "200 agent 50");
  assert.equal(await read(`${url}/redis`), "200 value of one");
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
});

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
