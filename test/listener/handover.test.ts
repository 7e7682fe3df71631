import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { deployed, eventually, keepAsking, newRun, type Site, settled, startSite } from "./harness.ts";

// Each test has its own world and mostly waits, so they run concurrently.
suite("one server on one state", { concurrency: true }, () => {
  test("never runs two servers on one state, and lets requests wait instead of failing", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug } = await deployed(site, newRun({ rollout: "handover" }));
    using watch = watchOverlap(site);
    using load = keepAsking(process, slug);
    for (let round = 0; round < 3; round++) {
      const next = newRun({ rollout: "handover" });
      site.controlPlane.assign({ deployment_id, target: next });
      await settled(site, deployment_id, next.revision_id);
    }
    const answers = await load.end();
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
    assert.equal(answers.at(-1)?.revision, site.world.snapshot()[0]?.revisionId);
    assert.equal(watch.replicasMax(), 1);
  });

  test("waits for the request in flight", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site, newRun({ rollout: "handover" }));
    const slow = process.request(slug, "/slow");
    await eventually(
      () => process.gateway.health().inFlight,
      (inFlight) => inFlight === 1,
    );
    const next = newRun({ rollout: "handover" });
    site.controlPlane.assign({ deployment_id, target: next });
    await eventually(
      () => process.gateway.health().routes.held,
      (held) => held === 1,
    );
    assert.deepEqual(site.replicas(), [`${run.revision_id} ready`]);
    site.answerSlow();
    assert.equal((await slow).status, 200);
    await settled(site, deployment_id, next.revision_id);
  });

  test("does not wait forever for a request that outlasts the drain", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug } = await deployed(site, newRun({ rollout: "handover", drain_timeout_ms: 200 }));
    const slow = process.request(slug, "/slow");
    const next = newRun({ rollout: "handover" });
    site.controlPlane.assign({ deployment_id, target: next });
    await settled(site, deployment_id, next.revision_id);
    site.answerSlow();
    await slow;
  });

  test("brings the old artifact back on the same state when the target exits, and reports why", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site, newRun({ rollout: "handover" }));
    using watch = watchOverlap(site);
    using load = keepAsking(process, slug);
    const broken = newRun({ rollout: "handover", env: { SIMULATE_START: "exit", SIMULATE_CAUSE: "no such graph" } });
    site.controlPlane.assign({ deployment_id, target: broken });
    const report = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.deepEqual(report.cause?.last_lines, ["no such graph"]);
    await eventually(site.replicas, (replicas) => replicas.join() === `${run.revision_id} ready`);
    const answers = await load.end();
    assert.deepEqual(
      new Set(answers.map(({ status, revision }) => `${status} ${revision}`)),
      new Set([`200 ${run.revision_id}`]),
    );
    assert.equal(watch.replicasMax(), 1);
  });

  test("leaves the serving replica alone when the preparation fails, as with missing secrets", async () => {
    await using site = await startSite();
    await site.startProcess();
    const { deployment_id } = await deployed(site, newRun({ rollout: "handover" }));
    const before = site.world.snapshot().map(({ replicaId }) => replicaId);
    const next = newRun({ rollout: "handover", secret_set_id: "11111111-1111-4111-8111-111111111111" });
    site.controlPlane.assign({ deployment_id, target: next });
    const report = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.match(report.cause?.message ?? "", /Secret set not found/);
    assert.deepEqual(
      site.world.snapshot().map(({ replicaId }) => replicaId),
      before,
    );
  });

  test("returns to the serving revision when the target is taken back in the middle of a handover", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site, newRun({ rollout: "handover" }));
    using watch = watchOverlap(site);
    const hanging = newRun({ rollout: "handover", env: { SIMULATE_START: "hang" } });
    site.controlPlane.assign({ deployment_id, target: hanging });
    await eventually(site.replicas, (replicas) => replicas.join() === `${hanging.revision_id} starting`);
    const waiting = process.request(slug);
    site.controlPlane.assign({ deployment_id, target: run });
    assert.deepEqual((await waiting).revision, run.revision_id);
    assert.equal(watch.replicasMax(), 1);
  });

  test("puts an idle deployment to sleep, and wakes it for the next request", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site, newRun({ min_replicas: 0 }), { idle_after_ms: 200 });
    await site.reported(deployment_id, ({ asleep }) => asleep);
    await eventually(site.replicas, (replicas) => replicas.length === 0);
    // A request keeps it awake until the control plane knows it.
    const answers = Promise.all([process.request(slug), process.request(slug, "/slow")]);
    await site.reported(deployment_id, ({ asleep, target_phase }) => !asleep && target_phase === "ready");
    site.answerSlow();
    assert.deepEqual(
      (await answers).map(({ status, revision }) => [status, revision]),
      Array(2).fill([200, run.revision_id]),
    );
    await site.reported(deployment_id, ({ asleep }) => asleep);
  });

  test("keeps a deployment awake during a long request", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug } = await deployed(site, newRun({ min_replicas: 0 }), { idle_after_ms: 100 });
    await site.reported(deployment_id, ({ asleep }) => asleep);
    const slow = process.request(slug, "/slow");
    const open = () => process.gateway.health().routes.open;
    await eventually(open, (count) => count === 1);
    // Ten times the idle window.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    assert.equal(open(), 1);
    site.answerSlow();
    assert.equal((await slow).status, 200);
    await site.reported(deployment_id, ({ asleep, replicas }) => asleep && replicas.length === 0);
  });

  test("proves a new revision of a sleeping deployment, and wakes nothing when it fails", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site, newRun({ min_replicas: 0 }), { idle_after_ms: 200 });
    await site.reported(deployment_id, ({ asleep }) => asleep);
    const broken = newRun({ min_replicas: 0, env: { SIMULATE_START: "exit" } });
    site.controlPlane.assign({ deployment_id, target: broken });
    await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    await site.reported(
      deployment_id,
      ({ asleep, target_revision_id }) => asleep && target_revision_id === run.revision_id,
    );
    assert.ok(
      !site.controlPlane.history.some(({ replicas }) => replicas.filter(({ phase }) => phase !== "exited").length > 1),
    );
    const next = newRun({ min_replicas: 0 });
    site.controlPlane.assign({ deployment_id, target: next });
    await site.reported(
      deployment_id,
      (report) => report.target_revision_id === next.revision_id && report.target_phase === "ready",
    );
    assert.equal((await process.request(slug)).revision, next.revision_id);
  });
});

/** Checks every change of the world. */
function watchOverlap(site: Site) {
  let most = 0;
  const check = () => {
    most = Math.max(most, site.world.snapshot().filter(({ phase }) => phase !== "exited").length);
  };
  const timer = setInterval(check, 1);
  site.world.watchers.add(check);
  return {
    replicasMax: () => most,
    [Symbol.dispose]() {
      clearInterval(timer);
      site.world.watchers.delete(check);
    },
  };
}
