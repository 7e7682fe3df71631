import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { after, test } from "node:test";
import type { Site } from "../kubeplane/harness.ts";
import { eventually } from "../support/eventually.ts";
import { isReady, openRestrictedSite, read, runOf, serviceUrl, startClusterWorld } from "./cluster-world.ts";
import { addDisk } from "./disk.ts";

const world = await startClusterWorld();
after(() => world[Symbol.asyncDispose]());

const isDatabaseFile = (name: string) => path.basename(name) === "PG_VERSION";

async function phaseOfDisk(name: string): Promise<string | undefined> {
  const call = {
    method: "GET",
    path: `/api/v1/persistentvolumes/${name}`,
    signal: AbortSignal.timeout(10_000),
  } as const;
  return (await world.plane.admin.call<{ status?: { phase?: string } }>(call)).status?.phase;
}

const setUnschedulable = (unschedulable: boolean) =>
  world.plane.admin.call({
    ...{ method: "PATCH", path: "/api/v1/nodes/node-1", type: "merge" },
    body: { spec: { unschedulable } },
    signal: AbortSignal.timeout(10_000),
  });

/** Does what `kubectl drain` does: no new pods, and the present ones are evicted. */
async function drain(site: Site): Promise<void> {
  await setUnschedulable(true);
  for (const { metadata } of await site.list("Pod")) {
    await world.plane.admin.call({
      method: "POST",
      path: `/api/v1/namespaces/${site.namespace}/pods/${metadata.name}/eviction`,
      body: { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: metadata.name } },
      signal: AbortSignal.timeout(10_000),
    });
  }
}

test("databases really start, keep their data when their node is drained, and a deletion leaves nothing", async () => {
  await using site = await openRestrictedSite(world);
  const disk = `disk-${site.namespace}`;
  await addDisk(world.plane, world.node, disk);
  const { deployment_id, slug } = await site.deployed(runOf(site, world.images.first, {}));
  const url = await serviceUrl(world, site, slug);
  assert.equal(await read(`${url}/postgres`), "200 agent 50");
  assert.equal(await read(`${url}/redis`), "200 value of one");
  assert.equal(await read(`${url}/visits`), "200 1");
  await drain(site);
  const { cause } = await site.reported(deployment_id, (report) => report.cause?.reason === "Unschedulable");
  assert.match(cause?.message ?? "", /unschedulable/);
  await setUnschedulable(false);
  await site.reported(deployment_id, (report) => report.cause === null && report.replicas.some(isReady));
  // The agent is ready before its database is, which starts at the same time.
  const answer = await eventually(
    () => read(`${url}/visits`),
    (one) => one.startsWith("200"),
    { timeoutMs: 60_000, what: "the database" },
  );
  assert.equal(answer, "200 2");
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
  await using site = await openRestrictedSite(world, { dataPolicy: "retain" });
  const disk = `disk-${site.namespace}`;
  await addDisk(world.plane, world.node, disk);
  const { deployment_id, slug } = await site.deployed(runOf(site, world.images.first, {}));
  assert.equal(await read(`${await serviceUrl(world, site, slug)}/visits`), "200 1");
  site.controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
  await site.reported(deployment_id, ({ deleted }) => deleted);
  assert.deepEqual(await site.list("Pod"), []);
  const claims = await site.list("PersistentVolumeClaim");
  assert.deepEqual(
    claims.map(({ metadata }) => metadata.name),
    [`data-${slug}-postgres-0`],
  );
  assert.equal(await phaseOfDisk(disk), "Bound");
  assert.ok((await readdir(path.join(world.node.directory, "disks", disk), { recursive: true })).some(isDatabaseFile));
});
