import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, test } from "node:test";
import { systemClock } from "../../src/base/clock.ts";
import type { ListenerSession } from "../../src/client/listener-client.ts";
import type { ImageBuilds } from "../../src/compute/image-builds.ts";
import { ClusterBuilds } from "../../src/listener/clusters/cluster-builds.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";
import { buildingListeners } from "./building-listeners.ts";

const server = await startTestServer({ PIERHEAD_COMPUTE: "none", PIERHEAD_ALLOW_LOCAL_SOURCES: "1" });
const repository = await createAgentRepository(nodeAgent("1"));
after(async () => {
  await server[Symbol.asyncDispose]();
  await repository[Symbol.asyncDispose]();
});
const { client } = server;
/** For the whole file: on a busy machine two of its tests took 110 s. Each wait has a limit of its own. */
const signal = AbortSignal.timeout(600_000);
const digestOf = (name: string) => `sha256:${createHash("sha256").update(name).digest("hex")}`;

const { openListener: open, deploy, nextOrder } = buildingListeners(server, repository.url, signal);
/** Each listener has a repository of its own: a removal in one stops all builds for it. */
const openListener = (name: string) => open(name, `registry.example.com/${name}`);

type Opened = Awaited<ReturnType<typeof openListener>>;

/** Ends the next build with an image of this name. */
async function build({ session, image_registry }: Opened, image: string) {
  const order = await nextOrder(session);
  const end = { image: `${image_registry}@${digestOf(image)}`, reason: null, message: "" };
  await session.reportBuild(order.build_id, { lines: [], end }, signal);
}

async function isAssigned(session: ListenerSession, deploymentId: string) {
  const read = async () => (await session.desired(0, 0, signal)).items;
  await eventually(
    read,
    (items) => items.some(({ deployment_id: id, target }) => id === deploymentId && target !== null),
    { timeoutMs: 30_000, what: "the assignment" },
  );
}

let seq = 0;

/** Deletes a deployment whose replicas the listener has removed. */
async function remove(session: ListenerSession, deploymentId: string) {
  await client.deleteDeployment({ deployment_id: deploymentId });
  const find = async () =>
    (await session.desired(0, 0, signal)).items.find(
      ({ deployment_id: id, op }) => id === deploymentId && op === "delete",
    );
  const item = await eventually(find, (found) => found !== undefined, { timeoutMs: 30_000, what: "the delete" });
  seq += 1;
  const { generation = 0 } = item ?? {};
  const nothing = { target_revision_id: null, serving_revision_id: null, server_version: null, cause: null };
  const report = {
    ...nothing,
    deployment_id: deploymentId,
    generation,
    seq,
    deleted: true,
    asleep: false,
    replicas: [],
  };
  await session.report({ reports: [{ ...report, target_phase: "none" }] }, signal);
  await client.waitForDeletion({ deployment_id: deploymentId }, { timeoutMs: 30_000 });
}

const claimed = (session: ListenerSession) =>
  eventually(
    () => session.claimImageRemoval(null, signal),
    (removal) => removal !== null,
    { timeoutMs: 30_000, what: "images to remove" },
  );

test("the image of a deleted deployment is removed once no other deployment uses it, with the cache of its builder", async () => {
  const opened = await openListener("equal");
  const { id, session } = opened;
  const first = await deploy("first", id);
  await build(opened, "shared");
  await isAssigned(session, first.id);
  const second = await deploy("second", id);
  await isAssigned(session, second.id);

  await remove(session, first.id);
  const cache = await claimed(session);
  assert.deepEqual(cache?.references, [`cache-${first.id}`]);
  const ended = { removal_id: cache?.removal_id as string, removed: [`cache-${first.id}`], message: null };
  assert.equal(await session.claimImageRemoval(ended, signal), null);

  await remove(session, second.id);
  const both = await claimed(session);
  // It was not built for the second one, so it has no cache.
  assert.deepEqual(both?.references, [digestOf("shared")]);
});

test("no build is ordered while images are being removed, and nothing is removed during a build", async () => {
  const opened = await openListener("turns");
  const { id, session } = opened;
  await repository.commit({ "server.js": "// to be removed" });
  const gone = await deploy("gone", id);
  await build(opened, "gone");
  await isAssigned(session, gone.id);
  await repository.commit({ "server.js": "// built meanwhile" });
  const building = await deploy("building", id);
  const [order] = await session.buildOrders([], 30_000, signal);
  assert.equal(order?.deployment_id, building.id);
  await remove(session, gone.id);
  assert.equal(await session.claimImageRemoval(null, signal), null, "a build runs");
  await build(opened, "built meanwhile");
  await isAssigned(session, building.id);
  const removal = await claimed(session);
  assert.deepEqual(removal?.references.toSorted(), [`cache-${gone.id}`, digestOf("gone")]);

  await repository.commit({ "server.js": "// waits" });
  const waiting = await deploy("waiting", id);
  const waitingIds = { deployment_id: waiting.id, revision_id: waiting.latest_revision_id as string };
  await eventually(
    () => client.getRevision(waitingIds),
    ({ status }) => status === "BUILDING",
    { timeoutMs: 30_000, what: "the build" },
  );
  assert.deepEqual(await session.buildOrders([], 2_000, signal), []);
  const end = {
    removal_id: removal?.removal_id as string,
    removed: [digestOf("gone")],
    message: "the registry is busy",
  };
  assert.equal(await session.claimImageRemoval(end, signal), null, "the other one is tried again later");
  const [late] = await session.buildOrders([], 30_000, signal);
  assert.equal(late?.deployment_id, waiting.id);
});

test("a listener removes images as soon as nothing needs them", async () => {
  const opened = await openListener("loop");
  const { id, session } = opened;
  await repository.commit({ "server.js": "// removed by the loop" });
  const made = await deploy("looped", id);
  await build(opened, "looped");
  await isAssigned(session, made.id);
  const removed: string[] = [];
  const left = new Set<string>();
  const cluster: ImageBuilds = {
    start: async () => {},
    inspect: async () => null,
    readLog: async (_, cursor) => ({ lines: [], cursor }),
    list: async () => [],
    async remove(removal) {
      left.delete(removal);
    },
    async startRemoval({ removal_id, references }) {
      left.add(removal_id);
      removed.push(...references);
    },
    inspectRemoval: async ({ removal_id, references }) => ({ removal_id, removed: references, message: null }),
  };
  await remove(session, made.id);
  const options = { builds: cluster, controlPlaneUrl: server.url, clock: systemClock, logger: createLogger("silent") };
  const builds = new ClusterBuilds({ ...options, onStale: assert.fail });
  builds.follow(session);
  try {
    await eventually(
      async () => removed.length === 2 && left.size === 0,
      (isDone) => isDone,
      { timeoutMs: 60_000, what: "the end of the removal" },
    );
  } finally {
    builds.close();
  }
  assert.deepEqual(removed.toSorted(), [`cache-${made.id}`, digestOf("looped")]);
  assert.equal(await session.claimImageRemoval(null, signal), null);
});

test("a listener stops a removal that its cluster does not run in time", async () => {
  const opened = await openListener("held");
  const { id, session } = opened;
  await repository.commit({ "server.js": "// held back" });
  const made = await deploy("held", id);
  await build(opened, "held");
  await isAssigned(session, made.id);
  const jobs: string[] = [];
  const removed: string[] = [];
  const cluster: ImageBuilds = {
    start: async () => {},
    inspect: async () => null,
    readLog: async (_, cursor) => ({ lines: [], cursor }),
    list: async () => [],
    remove: async (removal) => void removed.push(removal),
    startRemoval: async ({ removal_id }) => void jobs.push(removal_id),
    inspectRemoval: async () => null,
  };
  await remove(session, made.id);
  const hurried: ListenerSession = {
    ...session,
    claimImageRemoval: async (...claim) => {
      const removal = await session.claimImageRemoval(...claim);
      return removal && { ...removal, timeout_s: 1 };
    },
  };
  const options = { builds: cluster, controlPlaneUrl: server.url, clock: systemClock, logger: createLogger("silent") };
  const builds = new ClusterBuilds({ ...options, onStale: assert.fail });
  builds.follow(hurried);
  try {
    await eventually(
      async () => removed.length,
      (count) => count > 0,
      { timeoutMs: 60_000, what: "the end of the removal" },
    );
  } finally {
    builds.close();
  }
  assert.deepEqual(removed, jobs);
});

test("a listener reports the end of a removal once, although the server refuses its report", async () => {
  const opened = await openListener("refused");
  const { id, session } = opened;
  await repository.commit({ "server.js": "// reported badly" });
  const made = await deploy("refused", id);
  await build(opened, "refused");
  await isAssigned(session, made.id);
  const cluster: ImageBuilds = {
    start: async () => {},
    inspect: async () => null,
    readLog: async (_, cursor) => ({ lines: [], cursor }),
    list: async () => [],
    remove: async () => {},
    startRemoval: async () => {},
    // Longer than the protocol allows.
    inspectRemoval: async ({ removal_id }) => ({ removal_id, removed: ["x".repeat(300)], message: null }),
  };
  await remove(session, made.id);
  const reports: { removed: number; isAccepted: boolean }[] = [];
  const watched: ListenerSession = {
    ...session,
    claimImageRemoval: async (ended, ending) => {
      const report = { removed: ended?.removed.length ?? 0, isAccepted: false };
      if (ended !== null) reports.push(report);
      const removal = await session.claimImageRemoval(ended, ending);
      report.isAccepted = true;
      return removal;
    },
  };
  const options = { builds: cluster, controlPlaneUrl: server.url, clock: systemClock, logger: createLogger("silent") };
  const builds = new ClusterBuilds({ ...options, onStale: assert.fail });
  builds.follow(watched);
  try {
    await eventually(
      async () => reports,
      (found) => found.some(({ isAccepted }) => isAccepted),
      { timeoutMs: 60_000, what: "a report that the server accepts" },
    );
  } finally {
    builds.close();
  }
  assert.deepEqual(reports, [
    { removed: 1, isAccepted: false },
    { removed: 0, isAccepted: true },
  ]);
  assert.equal(await session.claimImageRemoval(null, signal), null, "the images are tried again after hours");
});
