import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { suite, test } from "node:test";
import { openSimulatedCompute } from "../../src/compute/simulated.ts";
import { deployed, eventually, newRun, settled, startSite } from "./harness.ts";

// Each test has its own world and mostly waits, so they run concurrently.
suite("over restarts, partitions and changes of leadership", { concurrency: true }, () => {
  test("opens the route to the replica it finds after a restart and starts nothing", async () => {
    await using site = await startSite();
    const first = await site.startProcess();
    const { slug, run, deployment_id } = await deployed(site);
    const before = site.world.snapshot().map(({ replicaId }) => replicaId);
    await first.stop();
    const second = await site.startProcess();
    await eventually(
      () => second.gateway.health().routes.open,
      (open) => open === 1,
    );
    assert.equal((await second.request(slug)).revision, run.revision_id);
    await settled(site, deployment_id, run.revision_id);
    assert.deepEqual(
      site.world.snapshot().map(({ replicaId }) => replicaId),
      before,
    );
  });

  for (const rollout of ["rolling", "handover"] as const) {
    test(`finishes a ${rollout} update that was half done when the previous listener died`, async () => {
      await using site = await startSite({ faults: { startDelayMs: { min: 2_000, max: 2_000 } } });
      const first = await site.startProcess();
      const { deployment_id, slug } = await deployed(site, newRun({ rollout }));
      const next = newRun({ rollout });
      site.controlPlane.assign({ deployment_id, target: next });
      await eventually(site.replicas, (replicas) => replicas.includes(`${next.revision_id} starting`));
      await first.stop();
      const started = site.world.snapshot().find(({ revisionId }) => revisionId === next.revision_id)?.replicaId;
      const second = await site.startProcess();
      await settled(site, deployment_id, next.revision_id);
      await eventually(site.replicas, (replicas) => replicas.join() === `${next.revision_id} ready`);
      assert.equal(site.world.snapshot()[0]?.replicaId, started, "the start was taken over, not repeated");
      assert.equal((await second.request(slug)).revision, next.revision_id);
    });

    test(`falls back from a ${rollout} update whose target died while no listener ran`, async () => {
      await using site = await startSite({ faults: { startDelayMs: { min: 100, max: 100 } } });
      const first = await site.startProcess();
      const { deployment_id, slug, run } = await deployed(site, newRun({ rollout }));
      const broken = newRun({ rollout, env: { SIMULATE_START: "hang" } });
      site.controlPlane.assign({ deployment_id, target: broken });
      await eventually(site.replicas, (replicas) => replicas.includes(`${broken.revision_id} starting`));
      await first.stop();
      const dying = site.world.snapshot().find(({ revisionId }) => revisionId === broken.revision_id);
      site.world.crash(dying?.replicaId ?? "");
      const second = await site.startProcess();
      await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
      await settled(site, deployment_id, run.revision_id);
      assert.equal((await second.request(slug)).revision, run.revision_id);
    });
  }

  test("finishes a delete that was half done when the previous listener died", async () => {
    await using site = await startSite({ faults: { stopDelayMs: { min: 2_000, max: 2_000 } } });
    const first = await site.startProcess();
    const { deployment_id } = await deployed(site, newRun({ min_replicas: 2 }));
    site.controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
    await eventually(site.replicas, (replicas) => replicas.some((replica) => replica.endsWith("stopping")));
    await first.stop();
    await site.startProcess();
    await site.reported(deployment_id, ({ deleted }) => deleted);
    assert.deepEqual(site.replicas(), []);
  });

  test("stops nothing while the control plane is away, restarts a dead replica, and keeps one snapshot to send", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site);
    site.controlPlane.goAway();
    const [replica] = site.world.snapshot();
    site.world.crash(replica?.replicaId ?? "");
    await eventually(
      () => site.world.snapshot(),
      ([other]) => other?.phase === "ready" && other.replicaId !== replica?.replicaId,
    );
    assert.equal((await process.request(slug)).revision, run.revision_id);
    const { reportsPending, isLeading } = process.listener.health();
    assert.deepEqual({ reportsPending, isLeading }, { reportsPending: 1, isLeading: true });
    const batchesBefore = site.controlPlane.batches.length;
    site.controlPlane.isAway = false;
    const report = await site.reported(deployment_id, ({ replicas }) => replicas[0]?.restarts === 1);
    assert.equal(report.target_phase, "ready");
    assert.equal(site.controlPlane.batches.length, batchesBefore + 1, "all changes in between are one snapshot");
  });

  test("stops acting at once when a newer session exists, and leads again after the lease", async () => {
    await using site = await startSite();
    site.controlPlane.leaseTtlS = 3;
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site);
    site.controlPlane.epoch += 1;
    await eventually(
      () => process.listener.health().isLeading,
      (isLeading) => !isLeading,
    );
    assert.deepEqual(site.replicas(), [`${run.revision_id} ready`]);
    assert.equal((await process.request(slug)).status, 200, "running replicas keep running");
    const [replica] = site.world.snapshot();
    site.world.crash(replica?.replicaId ?? "");
    assert.deepEqual(site.replicas(), [`${run.revision_id} exited`], "only the leader repairs");
    await eventually(
      () => process.listener.health().isLeading,
      (isLeading) => isLeading,
    );
    await eventually(site.replicas, (replicas) => replicas.join() === `${run.revision_id} ready`);
    await settled(site, deployment_id, run.revision_id);
  });

  test("wakes a sleeping deployment for a request that arrived while no instance was leading", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site, newRun({ min_replicas: 0 }), { idle_after_ms: 200 });
    await site.reported(deployment_id, ({ asleep, replicas }) => asleep && replicas.length === 0);
    site.controlPlane.orders = { drain: true };
    await eventually(
      () => process.listener.health().isDrained,
      (isDrained) => isDrained,
    );
    const answer = process.request(slug);
    await eventually(
      () => process.gateway.health().waiting,
      (waiting) => waiting === 1,
    );
    site.controlPlane.orders = {};
    await eventually(
      () => process.gateway.health().waiting,
      (waiting) => waiting === 0,
    );
    const { status, revision } = await answer;
    assert.deepEqual([status, revision], [200, run.revision_id]);
  });

  test("lets only one of two instances act", async () => {
    await using site = await startSite();
    // The first instance asks again when its lease is over.
    site.controlPlane.leaseTtlS = 60;
    const first = await site.startProcess();
    const { deployment_id } = await deployed(site);
    const second = await site.startProcess();
    await eventually(
      () => [first.listener.health().isLeading, second.listener.health().isLeading] as const,
      ([isFirst, isSecond]) => !isFirst && isSecond,
    );
    const next = newRun();
    site.controlPlane.assign({ deployment_id, target: next });
    await settled(site, deployment_id, next.revision_id);
    await eventually(site.replicas, (replicas) => replicas.join() === `${next.revision_id} ready`);
    const stale = site.controlPlane.calls.filter(({ epoch }) => epoch !== null && epoch < site.controlPlane.epoch);
    assert.ok(stale.length > 0);
  });

  test("removes replicas of unknown deployments, but only once all deployments are listed", async () => {
    await using site = await startSite();
    const first = await site.startProcess();
    const known = await deployed(site);
    const other = await deployed(site);
    const orphan = await deployed(site);
    await first.stop();
    site.controlPlane.forget(orphan.deployment_id);
    site.controlPlane.pageMax = 1;
    site.controlPlane.isListHeld = true;
    const second = await site.startProcess();
    await eventually(
      () =>
        site.controlPlane.calls.filter(
          ({ path, epoch }) => path.endsWith("/desired") && epoch === site.controlPlane.epoch,
        ).length,
      (asked) => asked === 2,
    );
    await eventually(
      () => second.gateway.health().routes.open,
      (open) => open === 1,
    );
    assert.equal(site.replicas().length, 3, "an incomplete list removes nothing");
    await second.stop();
    site.controlPlane.isListHeld = false;
    await site.startProcess();
    await eventually(site.replicas, (replicas) => replicas.length === 2);
    const left = new Set(site.world.snapshot().map(({ deploymentId }) => deploymentId));
    assert.deepEqual(left, new Set([known.deployment_id, other.deployment_id]));
  });

  test("opens a new session when its cursor is unknown, removes deployments that are no longer listed, and reports all again", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const [kept, other, gone] = [await deployed(site), await deployed(site), await deployed(site)];
    site.controlPlane.forget(gone.deployment_id);
    const [epoch, reported] = [site.controlPlane.epoch, site.controlPlane.history.length];
    // Like a restored copy of the database that is older than the last report.
    Object.assign(site.controlPlane.assignments.get(kept.deployment_id) as object, { generation: 1 });
    site.controlPlane.reports.delete(kept.deployment_id);
    site.controlPlane.hasForgotten = true;
    site.controlPlane.assign({ deployment_id: other.deployment_id });
    await site.reported(kept.deployment_id, ({ generation }) => generation === 1);
    assert.ok(site.controlPlane.epoch > epoch && site.controlPlane.history.length > reported);
    const left = [kept, other].map(({ run }) => `${run.revision_id} ready`).toSorted();
    await eventually(site.replicas, (replicas) => replicas.toSorted().join() === left.join());
    assert.equal((await process.request(gone.slug)).status, 404);
  });

  test("passes secrets to the replica, with the control plane's variables on top and without PORT and PATH", async () => {
    await using site = await startSite();
    const seen: Record<string, string>[] = [];
    const compute = openSimulatedCompute({ world: site.world });
    const { ensure } = compute;
    compute.ensure = (spec, signal) => {
      seen.push(spec.env);
      return ensure(spec, signal);
    };
    await site.startProcess({ compute });
    const secret_set_id = randomUUID();
    site.controlPlane.secrets.set(secret_set_id, { API_KEY: "s", LOG_JSON: "false", PORT: "1", PATH: "/evil" });
    await deployed(site, newRun({ secret_set_id, env: { LOG_JSON: "true" } }));
    assert.deepEqual(seen, [{ API_KEY: "s", LOG_JSON: "true" }]);
  });

  test("a settled fleet sends no reports and takes no actions", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    for (let count = 0; count < 20; count++) await deployed(site);
    await eventually(
      () => process.listener.health().reportsPending,
      (pending) => pending === 0,
    );
    const batches = site.controlPlane.batches.length;
    const before = site.world.snapshot();
    // Another heartbeat shows that the listener was alive meanwhile.
    const beats = () => site.controlPlane.calls.filter(({ path }) => path.endsWith("/heartbeat")).length;
    const seen = beats();
    await eventually(beats, (count) => count >= seen + 2);
    assert.equal(site.controlPlane.batches.length, batches);
    assert.equal(site.world.snapshot(), before, "no replica changed");
  });
});
