import assert from "node:assert/strict";
import { after, test } from "node:test";
import { eventually } from "../support/eventually.ts";
import {
  answersAtOnce,
  healthWordOf,
  openRestrictedSite,
  read,
  runOf,
  serviceUrl,
  startClusterWorld,
} from "./cluster-world.ts";
import { followPodStart } from "./pod-start.ts";

const world = await startClusterWorld();
after(() => world[Symbol.asyncDispose]());

const rounds = 5;
const requests = 50;

test("a first revision serves as soon as its Service reaches it, and the requests right after that are all answered", async (context) => {
  const addedMs: number[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    await using site = await openRestrictedSite(world);
    using start = await followPodStart(world.plane.admin, site.namespace);
    const { slug } = await site.deployed(runOf(site, world.images.first));
    const servesMs = performance.now();
    const url = await serviceUrl(world, site, slug);
    assert.deepEqual(await answersAtOnce(`${url}/`, requests), ["200 one"], `round ${round}`);
    addedMs.push(Math.round(servesMs - (await start.podReadyMs)));
  }
  context.diagnostic(
    `serves ${addedMs.join(", ")} ms after its pod is ready; ${rounds * requests} requests, none lost`,
  );
  // Available, by which it waited before, is a pod that was ready for five seconds.
  assert.ok(Math.min(...addedMs) < 3_000, `${addedMs.join(", ")} ms`);
});

test("a first revision that ends right after it began to serve is not shown as live", async () => {
  await using site = await openRestrictedSite(world);
  const { deployment_id, slug } = await site.deployed(runOf(site, world.images.first));
  await read(`${await serviceUrl(world, site, slug)}/crash`).catch(() => {});
  const report = await site.reported(deployment_id, (one) => healthWordOf(one) !== "live");
  assert.equal(healthWordOf(report), "degraded");
  await site.reported(deployment_id, (one) => healthWordOf(one) === "live" && one.replicas[0]?.restarts === 1);
});

test("a revision that ends soon after it got ready never replaces the one that serves", async () => {
  await using site = await openRestrictedSite(world);
  const { deployment_id, slug } = await site.deployed(runOf(site, world.images.first));
  const url = await serviceUrl(world, site, slug);
  const next = runOf(site, world.images.shortLived);
  site.controlPlane.assign({ deployment_id, target: next });
  const { cause } = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
  assert.deepEqual([cause?.reason, cause?.last_lines], ["Exited", ["the licence has ended"]]);
  const served = site.controlPlane.history.filter(({ serving_revision_id: id }) => id === next.revision_id);
  assert.deepEqual(served, []);
  await eventually(
    () => answersAtOnce(`${url}/`, 5),
    (answers) => answers.length === 1 && answers[0] === "200 one",
    { timeoutMs: 60_000, what: "only the revision before answers" },
  );
});
