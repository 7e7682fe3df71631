import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { LiveObject } from "../../src/compute/kubernetes/api/manifest.ts";
import { eventually } from "../support/eventually.ts";
import { addDisk, define } from "./cluster-objects.ts";
import { newRun, openSite, type Site, startWorld } from "./harness.ts";
import { make } from "./plane.ts";

let world: Awaited<ReturnType<typeof startWorld>>;
before(async () => {
  world = await startWorld();
});
after(() => world[Symbol.asyncDispose]());

const soon = () => AbortSignal.timeout(30_000);

/** A run with its own database, on a disk that the test provides. */
async function deployed(site: Site): Promise<{ deployment_id: string; slug: string }> {
  await addDisk(world.plane, `disk-${site.namespace}`);
  return site.deployed(newRun(site, undefined, {}, {}));
}

const deleteIt = ({ controlPlane }: Site, deployment_id: string) =>
  controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });

const setStatus = (path: string, status: object) =>
  world.plane.admin.call({ method: "PATCH", path: `${path}/status`, body: { status }, type: "merge", signal: soon() });

const annotate = ({ namespace }: Site, name: string, policy: string) =>
  world.plane.admin.patch(
    "ConfigMap",
    { namespace, name },
    { metadata: { annotations: { "pierhead.dev/data": policy } } },
    soon(),
  );

/** Asserts that only data is left: all other objects are deleted under any policy. */
async function assertOnlyDataIsLeft(site: Site, slug: string): Promise<void> {
  for (const kind of ["StatefulSet", "Deployment", "Service", "NetworkPolicy", "Pod", "ServiceAccount"]) {
    const names = (await site.list(kind)).map(({ metadata }) => metadata.name);
    assert.deepEqual(
      names.filter((name) => name !== "default"),
      [],
      kind,
    );
  }
  assert.equal(await site.get("ConfigMap", slug), null);
}

async function assertPasswordIsLeft(site: Site, slug: string): Promise<void> {
  const secrets = await site.list("Secret");
  assert.deepEqual(
    secrets.map(({ metadata }) => [metadata.name, metadata.ownerReferences ?? []]),
    [[`${slug}-postgres`, []]],
    "orphaned: no garbage collector deletes it",
  );
}

test("a database whose password was deleted does not get a new one, which it would not accept, and the report names the loss", async () => {
  await using site = await openSite(world.plane);
  const { deployment_id, slug } = await deployed(site);
  const key = { namespace: site.namespace, name: `${slug}-postgres` };
  const manifest = { apiVersion: "v1", kind: "Secret", metadata: key, stringData: { password: "p", uri: "u" } };
  await world.plane.admin.remove("Secret", key, {}, soon());
  const next = () => newRun(site, "127.0.0.1:1/agent:2", {}, {});
  site.controlPlane.assign({ deployment_id, target: next() });
  const { cause } = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
  assert.match(cause?.message ?? "", new RegExp(`The Secret ${key.name} is gone, and with it the password`));
  assert.equal(await site.get("Secret", key.name), null);
  await world.plane.admin.create(manifest, soon());
  const again = next();
  site.controlPlane.assign({ deployment_id, target: again });
  await site.reported(deployment_id, ({ serving_revision_id: id }) => id === again.revision_id);
});

test("a Redis whose password was deleted is created again with another one", async () => {
  await using site = await openSite(world.plane);
  const secrets = { POSTGRES_URI_CUSTOM: "postgresql://127.0.0.1:1/x" };
  const { deployment_id, slug } = await site.deployed(newRun(site, undefined, {}, secrets));
  const key = { namespace: site.namespace, name: `${slug}-redis` };
  const began = (await site.get("Deployment", key.name))?.metadata.uid;
  await world.plane.admin.remove("Secret", key, {}, soon());
  const next = newRun(site, "127.0.0.1:1/agent:2", {}, secrets);
  site.controlPlane.assign({ deployment_id, target: next });
  await site.reported(deployment_id, ({ serving_revision_id: id }) => id === next.revision_id);
  assert.ok(await site.get("Secret", key.name));
  assert.notEqual((await site.get("Deployment", key.name))?.metadata.uid, began);
});

suite("data of a deleted deployment", () => {
  test("retain: disk and password stay and are found by their label; all else is deleted. An annotation overrides the policy", async () => {
    await using site = await openSite(world.plane, { dataPolicy: "delete" });
    const { deployment_id, slug } = await deployed(site);
    await annotate(site, slug, "keep");
    deleteIt(site, deployment_id);
    const { cause } = await site.reported(deployment_id, (report) => report.cause !== null);
    assert.match(cause?.message ?? "", /none of delete, retain, snapshot/);
    assert.ok(await site.get("StatefulSet", `${slug}-postgres`), "nothing is touched before the policy is known");
    await annotate(site, slug, "retain");
    await site.reported(deployment_id, ({ deleted }) => deleted);
    await assertOnlyDataIsLeft(site, slug);
    await assertPasswordIsLeft(site, slug);
    const [disk, ...others] = await site.list("PersistentVolumeClaim");
    assert.equal(others.length, 0);
    assert.equal(disk?.metadata.labels?.["pierhead.dev/retained"], "true");
    assert.equal(disk?.metadata.labels?.["pierhead.dev/deployment-id"], deployment_id);
    assert.deepEqual([disk?.metadata.deletionTimestamp, disk?.metadata.ownerReferences], [undefined, undefined]);
  });

  test("retain: the password stays even if another client has deleted the anchor before", async () => {
    await using site = await openSite(world.plane, { dataPolicy: "retain" });
    const { deployment_id, slug } = await deployed(site);
    const key = { namespace: site.namespace, name: slug };
    const body = { metadata: { annotations: { "pierhead.dev/paused": "true" } } };
    await world.plane.admin.patch("ConfigMap", key, body, soon());
    await world.plane.admin.remove("ConfigMap", key, {}, soon());
    deleteIt(site, deployment_id);
    await site.reported(deployment_id, ({ deleted }) => deleted);
    await assertOnlyDataIsLeft(site, slug);
    // The garbage collector takes a moment.
    await sleep(3_000);
    await assertPasswordIsLeft(site, slug);
  });

  test("snapshot: a cluster without snapshots reports that and keeps the disk, which is deleted only once its snapshot is ready", async () => {
    await using site = await openSite(world.plane, { dataPolicy: "snapshot", snapshotClass: "fast" });
    const { deployment_id, slug } = await deployed(site);
    deleteIt(site, deployment_id);
    const cannot = await site.reported(deployment_id, (report) => report.cause !== null);
    assert.match(cannot.cause?.message ?? "", /no VolumeSnapshot .*Install a snapshot controller/);
    assert.deepEqual(
      [await site.list("StatefulSet"), await site.list("Pod")],
      [[], []],
      "the agent is deleted already",
    );
    const disk = `data-${slug}-postgres-0`;
    await define(world.plane, "snapshot.storage.k8s.io", "v1", [{ kind: "VolumeSnapshot", plural: "volumesnapshots" }]);
    const snapshot = () => site.get<LiveObject & { spec: object }>("VolumeSnapshot", `${disk}-last`).catch(() => null);
    const taken = await eventually(snapshot, (one) => one !== null, { timeoutMs: 90_000 });
    assert.deepEqual(taken?.spec, { source: { persistentVolumeClaimName: disk }, volumeSnapshotClassName: "fast" });
    const path = `/apis/snapshot.storage.k8s.io/v1/namespaces/${site.namespace}/volumesnapshots/${disk}-last`;
    await setStatus(path, { readyToUse: false, error: { message: "the array is full" } });
    await site.reported(deployment_id, ({ cause }) => /the array is full/.test(cause?.message ?? ""));
    const held = await site.get("PersistentVolumeClaim", disk);
    assert.ok(held !== null && held.metadata.deletionTimestamp === undefined);
    await setStatus(path, { readyToUse: true, error: null });
    await site.reported(deployment_id, ({ deleted }) => deleted);
    await assertOnlyDataIsLeft(site, slug);
    await assertPasswordIsLeft(site, slug);
    assert.deepEqual(await site.list("PersistentVolumeClaim"), []);
    assert.equal((await snapshot())?.metadata.labels?.["pierhead.dev/retained"], "true");
  });

  test("a database of CloudNativePG is hibernated and stays; with a snapshot of each of its disks it is deleted", async () => {
    await define(world.plane, "postgresql.cnpg.io", "v1", [{ kind: "Cluster", plural: "clusters" }]);
    await using site = await openSite(world.plane, { dataPolicy: "retain" });
    await site.rediscovered(({ hasCnpg, hasSnapshots }) => hasCnpg && hasSnapshots);
    const root = `/apis/postgresql.cnpg.io/v1/namespaces/${site.namespace}/clusters`;
    const begin = async () => {
      const deploying = site.deployed(newRun(site, undefined, { profile: "production" }, {}));
      const cluster = await eventually(
        async () => (await site.list("Cluster")).find((one) => one["status"] === undefined),
        (one) => one !== undefined,
        { timeoutMs: 60_000 },
      );
      await setStatus(`${root}/${cluster?.metadata.name}`, { readyInstances: 2 });
      return deploying;
    };
    const kept = await begin();
    deleteIt(site, kept.deployment_id);
    await site.reported(kept.deployment_id, ({ deleted }) => deleted);
    const cluster = await site.get("Cluster", `${kept.slug}-postgres`);
    assert.equal(cluster?.metadata.annotations?.["cnpg.io/hibernation"], "on");
    assert.deepEqual(cluster?.metadata.ownerReferences ?? [], []);
    await assertOnlyDataIsLeft(site, kept.slug);

    const { deployment_id, slug } = await begin();
    const name = `${slug}-postgres`;
    await make(world.plane.admin, `/api/v1/namespaces/${site.namespace}/persistentvolumeclaims`, {
      metadata: { name: `${name}-1`, labels: { "cnpg.io/cluster": name } },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    });
    await annotate(site, slug, "snapshot");
    deleteIt(site, deployment_id);
    await eventually(
      () => site.get("Cluster", name),
      (one) => one?.metadata.annotations?.["cnpg.io/hibernation"] === "on",
      { timeoutMs: 60_000 },
    );
    assert.deepEqual(await site.list("VolumeSnapshot"), [], "not while it writes");
    await setStatus(`${root}/${name}`, { conditions: [{ type: "cnpg.io/hibernation", status: "True" }] });
    const snapshots = `/apis/snapshot.storage.k8s.io/v1/namespaces/${site.namespace}/volumesnapshots`;
    await eventually(
      () => site.get("VolumeSnapshot", `${name}-1-last`),
      (one) => one !== null,
      { timeoutMs: 60_000 },
    );
    assert.ok(await site.get("Cluster", name));
    await setStatus(`${snapshots}/${name}-1-last`, { readyToUse: true });
    await site.reported(deployment_id, ({ deleted }) => deleted);
    assert.equal(await site.get("Cluster", name), null);
    assert.deepEqual(await site.list("PersistentVolumeClaim"), []);
    await assertOnlyDataIsLeft(site, slug);
  });
});
