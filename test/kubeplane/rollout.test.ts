import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, suite, test } from "node:test";
import type { LiveObject } from "../../src/compute/kubernetes/api/manifest.ts";
import type { DeploymentView } from "../../src/compute/kubernetes/watch/rollout.ts";
import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { eventually } from "../support/eventually.ts";
import { addDisk } from "./cluster-objects.ts";
import { grant, newRun, openSite, type Site, startWorld } from "./harness.ts";

let world: Awaited<ReturnType<typeof startWorld>>;
before(async () => {
  world = await startWorld();
});
after(() => world[Symbol.asyncDispose]());

suite("rollouts on a real control plane", { concurrency: true }, () => {
  test("a first deploy, an update that never goes below the desired replicas, and a deletion that leaves nothing", async () => {
    await using site = await openSite(world.plane);
    const first = newRun(site);
    const { deployment_id, slug } = await site.deployed(first);
    const second = newRun(site, "127.0.0.1:1/agent:2");
    let fewest = Number.POSITIVE_INFINITY;
    site.controlPlane.assign({ deployment_id, target: second });
    await eventually(
      async () => {
        const deployment = await site.get<DeploymentView>("Deployment", slug);
        fewest = Math.min(fewest, deployment?.status?.availableReplicas ?? 0);
        return site.controlPlane.assignments.get(deployment_id)?.serving?.revision_id;
      },
      (serving) => serving === second.revision_id,
      { timeoutMs: 60_000 },
    );
    assert.equal(fewest, 1, "the old replica serves until the new one does");
    site.controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
    await site.reported(deployment_id, ({ deleted }) => deleted);
    for (const kind of ["ConfigMap", "Secret", "Deployment", "Service", "ServiceAccount", "ReplicaSet", "Pod"]) {
      const left = (await site.list(kind)).filter(({ metadata }) => metadata.name.startsWith(slug));
      assert.deepEqual(
        left.map(({ metadata }) => metadata.name),
        [],
        kind,
      );
    }
  });

  const failures = [
    { image: "127.0.0.1:1/pull-fails:1", reason: "ImagePull", message: /127\.0\.0\.1:1\/pull-fails:1/ },
    { image: "127.0.0.1:1/crashes:1", reason: "Exited", message: /exit code 3/ },
    { image: "127.0.0.1:1/start-fails:1", reason: "StartError", message: /secret "nowhere" not found/ },
    { image: "127.0.0.1:1/out-of-memory:1", reason: "OutOfMemory", message: /Raise the limit/ },
  ];
  for (const { image, reason, message } of failures) {
    test(`${reason}: the revision fails and says why, and the one before goes on serving`, async () => {
      await using site = await openSite(world.plane);
      const first = newRun(site);
      const { deployment_id, slug } = await site.deployed(first);
      site.controlPlane.assign({ deployment_id, target: newRun(site, image) });
      const report = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
      assert.equal(report.cause?.reason, reason);
      assert.match(report.cause?.message ?? "", message);
      if (reason === "Exited") assert.deepEqual(report.cause?.last_lines.length, 1);
      await eventually(
        () => site.get<DeploymentView>("Deployment", slug),
        (deployment) =>
          JSON.stringify(deployment?.spec.template).includes(first.revision_id) &&
          deployment?.status?.updatedReplicas === 1 &&
          deployment.status.replicas === 1,
        { what: "rolled back" },
      );
    });
  }

  test("a first revision that fails is stopped with its Redis, keeps its database, and the next revision starts", async () => {
    await using site = await openSite(world.plane);
    await addDisk(world.plane, `disk-${site.namespace}`);
    const deployment_id = randomUUID();
    const { slug } = site.controlPlane.assign({ deployment_id, target: newRun(site, "127.0.0.1:1/crashes:1", {}, {}) });
    await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    await eventually(
      async () => (await site.list("Pod")).map(({ metadata }) => metadata.name),
      (pods) => pods.join() === `${slug}-postgres-0`,
      { timeoutMs: 30_000, what: "only the database runs" },
    );
    const next = newRun(site, "127.0.0.1:1/agent:2", {}, {});
    site.controlPlane.assign({ deployment_id, target: next });
    await site.reported(deployment_id, ({ serving_revision_id: id }) => id === next.revision_id);
    assert.ok(await site.get("Deployment", `${slug}-redis`));
  });

  test("secrets are only in Secrets, references stay references, and their values are nowhere else", async () => {
    await using site = await openSite(world.plane);
    const value = randomUUID();
    const reference = { name: "API_KEY", secret_name: "theirs", secret_key: "key" };
    const run = newRun(
      site,
      undefined,
      { secret_references: [reference] },
      { ...{ POSTGRES_URI_CUSTOM: "x", REDIS_URI_CUSTOM: "y" }, TOKEN: value },
    );
    const { slug } = await site.deployed(run);
    const anchor = JSON.stringify(await site.get("ConfigMap", slug));
    const deployment = JSON.stringify(await site.get("Deployment", slug));
    assert.equal(anchor.includes(value) || deployment.includes(value), false);
    const [container] =
      (await site.get<{ spec: { template: { spec: { containers: { env: object[] }[] } } } }>("Deployment", slug))?.spec
        .template.spec.containers ?? [];
    assert.deepEqual(
      container?.env.find((one) => (one as { name: string }).name === "API_KEY"),
      { name: "API_KEY", valueFrom: { secretKeyRef: { name: "theirs", key: "key" } } },
    );
    const secrets = await site.list("Secret");
    assert.equal(secrets.length, 1);
    assert.equal((secrets[0] as unknown as { immutable: boolean }).immutable, true);
  });

  test("deployments of another listener in the same namespace are left alone; unwanted ones of this listener are deleted", async () => {
    await using site = await openSite(world.plane);
    const { slug } = await site.deployed(newRun(site));
    const anchorOf = (name: string) => site.get<LiveObject>("ConfigMap", name);
    const other = await openSite(world.plane, {}, { beside: site });
    const theirs = await other.deployed(newRun(other));
    assert.equal((await anchorOf(slug))?.metadata.deletionTimestamp, undefined);
    await other[Symbol.asyncDispose]();
    const { listenerId } = other.controlPlane;
    await using again = await openSite(world.plane, {}, { beside: site, listenerId });
    await eventually(
      () => anchorOf(theirs.slug),
      (anchor) => anchor === null,
      { timeoutMs: 60_000, what: "no anchor of the listener without a deployment" },
    );
    assert.equal((await anchorOf(slug))?.metadata.deletionTimestamp, undefined);
    const { deployment_id } = again.controlPlane.assign({ deployment_id: randomUUID(), slug, target: newRun(again) });
    const report = await again.reported(deployment_id, ({ cause }) => cause !== null);
    assert.match(
      report.cause?.message ?? "",
      new RegExp(`The ConfigMap ${slug} .* does not belong to this deployment`),
    );
  });

  test("a deployment without a namespace stays where it was created when the default changes", async () => {
    await using site = await openSite(world.plane);
    const { deployment_id, slug } = await site.deployed(newRun(site));
    await site.listener.stop();
    const firstNamespace = await world.plane.newNamespace();
    await grant(world.plane, firstNamespace);
    const { listenerId } = site.controlPlane;
    await using again = await openSite(world.plane, {}, { beside: site, listenerId, firstNamespace });
    const next = await takenOver(again, { deployment_id, slug });
    const { template } = (await site.get<DeploymentView>("Deployment", slug))?.spec ?? {};
    assert.match(JSON.stringify(template), new RegExp(next.revision_id));
    const { items } = await world.plane.admin.list("Deployment", firstNamespace, {}, AbortSignal.timeout(30_000));
    assert.deepEqual(items, [], "nothing was created elsewhere");
  });

  test("a deleted namespace does not block the others, and deployments in it are not reported as deleted", async () => {
    await using site = await openSite(world.plane);
    const { deployment_id, slug } = await site.deployed(newRun(site));
    await site.listener.stop();
    // Without rights, as in a namespace that was deleted.
    const firstNamespace = await world.plane.newNamespace();
    const { listenerId } = site.controlPlane;
    await using again = await openSite(world.plane, {}, { beside: site, listenerId, firstNamespace });
    await takenOver(again, { deployment_id, slug });
    again.controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
    await again.reported(deployment_id, ({ deleted }) => deleted);
    assert.equal(await again.get("ConfigMap", slug), null);
    const unseen = { deployment_id: randomUUID(), op: "delete" as const, target: null, serving: null };
    again.controlPlane.assign(unseen);
    const waiting = await again.reported(unseen.deployment_id, () => true);
    assert.equal(waiting.deleted, false);
    assert.match(waiting.cause?.message ?? "", new RegExp(`forbidden.*namespace "${firstNamespace}"`));
  });

  test("a deletion in a namespace that the listener does not serve waits and is reported", async () => {
    await using site = await openSite(world.plane);
    const deletion = { deployment_id: randomUUID(), op: "delete" as const, target: null, serving: null };
    site.controlPlane.assign({ ...deletion, namespace: "staging" });
    const { deleted, cause } = await site.reported(deletion.deployment_id, () => true);
    assert.equal(deleted, false);
    assert.match(cause?.message ?? "", /belongs in the namespace staging, which this listener does not serve/);
  });

  test("changes and deletions by other clients are repaired", async () => {
    await using site = await openSite(world.plane);
    const { slug } = await site.deployed(newRun(site));
    const signal = AbortSignal.timeout(30_000);
    const key = { namespace: site.namespace, name: slug };
    await world.plane.admin.patch("Service", key, { spec: { selector: { wrong: "yes" } } }, signal);
    await eventually(
      async () => (await site.get<{ spec: { selector: object } }>("Service", slug))?.spec.selector,
      (selector) => selector !== undefined && !("wrong" in selector),
    );
    await world.plane.admin.remove("Deployment", key, {}, signal);
    await eventually(
      () => site.get<DeploymentView>("Deployment", slug),
      (deployment) => deployment?.status?.availableReplicas === 1,
    );
  });
});

test("a revision after one that could not start does not fail because of it, even if the cluster processes it late", async () => {
  await using site = await openSite(world.plane);
  const deployment_id = randomUUID();
  site.controlPlane.assign({ deployment_id, target: newRun(site, "127.0.0.1:1/start-fails:1") });
  await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
  const next = newRun(site);
  world.plane.freezeControllers(true);
  const thaw = setTimeout(() => world.plane.freezeControllers(false), 5_000);
  try {
    site.controlPlane.assign({ deployment_id, target: next });
    const { target_phase } = await site.reported(
      deployment_id,
      (report) => report.target_revision_id === next.revision_id && report.target_phase !== "starting",
    );
    assert.equal(target_phase, "ready");
  } finally {
    clearTimeout(thaw);
    world.plane.freezeControllers(false);
  }
});

/** Another control plane takes over a deployment and serves the next revision. */
async function takenOver(site: Site, deployment: { deployment_id: string; slug: string }): Promise<RevisionRun> {
  const next = newRun(site, "127.0.0.1:1/agent:2");
  // With a higher generation than the cluster has, as a real one would have.
  for (let generation = 1; generation <= 3; generation++) site.controlPlane.assign({ ...deployment, target: next });
  await site.reported(deployment.deployment_id, ({ serving_revision_id: id }) => id === next.revision_id);
  return next;
}
