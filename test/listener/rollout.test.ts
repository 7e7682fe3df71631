import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { suite, test } from "node:test";
import { deployed, eventually, keepAsking, newRun, settled, startSite } from "./harness.ts";

// Each test has its own world and mostly waits, so they run concurrently.
suite("the life of a deployment", { concurrency: true }, () => {
  test("starts a replica for a first deployment, opens the route and reports it ready with its version", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site);
    assert.deepEqual(await process.request(slug), { status: 200, revision: run.revision_id, text: "answer to /hello" });
    const report = await site.reported(deployment_id, ({ server_version }) => server_version !== null);
    assert.equal(report.server_version, "simulated");
    assert.deepEqual(
      report.replicas.map(({ phase, revision_id }) => [phase, revision_id]),
      [["ready", run.revision_id]],
    );
    const phases = site.controlPlane.history.map(({ target_phase }) => target_phase);
    assert.ok(!phases.slice(phases.indexOf("ready")).includes("starting"), phases.join());
  });

  test("moves traffic in an update without a failed request and removes the old replicas", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug } = await deployed(site, newRun({ min_replicas: 2 }));
    using load = keepAsking(process, slug);
    const next = newRun({ min_replicas: 3 });
    site.controlPlane.assign({ deployment_id, target: next });
    await settled(site, deployment_id, next.revision_id);
    await eventually(
      site.replicas,
      (replicas) => replicas.join() === Array(3).fill(`${next.revision_id} ready`).join(),
    );
    const answers = await load.end();
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
    assert.equal(answers.at(-1)?.revision, next.revision_id);
  });

  test("lets the old replica answer a request in flight when traffic moves", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site);
    const slow = process.request(slug, "/slow");
    await eventually(
      () => process.gateway.health().inFlight,
      (inFlight) => inFlight === 1,
    );
    const next = newRun();
    site.controlPlane.assign({ deployment_id, target: next });
    await settled(site, deployment_id, next.revision_id);
    assert.ok(site.replicas().includes(`${run.revision_id} ready`), "it still runs for the slow request");
    site.answerSlow();
    assert.deepEqual(await slow, { status: 200, revision: run.revision_id, text: "answer to /slow" });
    await eventually(site.replicas, (replicas) => replicas.join() === `${next.revision_id} ready`);
  });

  test("reports the cause when the start of an update exits, and never stops the serving revision", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site);
    using load = keepAsking(process, slug);
    const broken = newRun({ env: { SIMULATE_START: "exit", SIMULATE_CAUSE: "SyntaxError: agent.ts:3" } });
    site.controlPlane.assign({ deployment_id, target: broken });
    const report = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.equal(report.target_revision_id, broken.revision_id);
    assert.equal(report.serving_revision_id, run.revision_id);
    assert.equal(report.cause?.exit_code, 3);
    assert.deepEqual(report.cause?.last_lines, ["SyntaxError: agent.ts:3"]);
    await eventually(site.replicas, (replicas) => replicas.join() === `${run.revision_id} ready`);
    const answers = await load.end();
    assert.deepEqual(
      new Set(answers.map(({ status, revision }) => `${status} ${revision}`)),
      new Set([`200 ${run.revision_id}`]),
    );
  });

  test("leaves nothing behind when a first deployment fails, and answers with the reason at its address", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const deployment_id = randomUUID();
    const { slug } = site.controlPlane.assign({ deployment_id, target: newRun({ env: { SIMULATE_START: "exit" } }) });
    await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    await eventually(site.replicas, (replicas) => replicas.length === 0);
    const { status, text } = await process.request(slug);
    assert.equal(status, 503);
    assert.match(text, /No revision of this deployment/);
  });

  test("fails a start at its deadline that never becomes healthy", async () => {
    await using site = await startSite();
    await site.startProcess();
    const { deployment_id } = await deployed(site);
    const hanging = newRun({ env: { SIMULATE_START: "hang" }, start_timeout_ms: 300 });
    site.controlPlane.assign({ deployment_id, target: hanging });
    const report = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.equal(report.cause?.reason, "NotHealthy");
  });

  test("replaces an unfinished target by a newer one, and ends it when it is taken back", async () => {
    await using site = await startSite();
    await site.startProcess();
    const { deployment_id, run } = await deployed(site);
    const hanging = newRun({ env: { SIMULATE_START: "hang" } });
    site.controlPlane.assign({ deployment_id, target: hanging });
    await eventually(site.replicas, (replicas) => replicas.includes(`${hanging.revision_id} starting`));
    const newer = newRun({ env: { SIMULATE_START: "hang" } });
    site.controlPlane.assign({ deployment_id, target: newer });
    await eventually(
      site.replicas,
      (replicas) => replicas.join() === [`${run.revision_id} ready`, `${newer.revision_id} starting`].join(),
    );
    site.controlPlane.assign({ deployment_id, target: run });
    await eventually(site.replicas, (replicas) => replicas.join() === `${run.revision_id} ready`);
  });

  test("starts or removes only the difference when the number of replicas changes", async () => {
    await using site = await startSite();
    await site.startProcess();
    const { deployment_id, run } = await deployed(site);
    const [first] = site.world.snapshot();
    const scale = (min_replicas: number) => {
      const scaled = { ...run, min_replicas };
      site.controlPlane.assign({ deployment_id, target: scaled, serving: scaled });
    };
    scale(4);
    await eventually(site.replicas, (replicas) => replicas.join() === Array(4).fill(`${run.revision_id} ready`).join());
    scale(1);
    await eventually(site.replicas, (replicas) => replicas.join() === `${run.revision_id} ready`);
    assert.equal(site.world.snapshot()[0]?.replicaId, first?.replicaId, "the oldest stays");
  });

  test("removes everything on delete, reports it, and closes the address", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { deployment_id, slug } = await deployed(site, newRun({ min_replicas: 2 }));
    site.controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
    await site.reported(deployment_id, ({ deleted }) => deleted);
    assert.deepEqual(site.replicas(), []);
    assert.equal((await process.request(slug)).status, 404);
    await eventually(
      () => process.listener.health().deployments,
      (deployments) => deployments === 0,
    );
  });

  test("restarts a serving replica that dies, lets requests wait for it, and counts the restart", async () => {
    await using site = await startSite({ faults: { startDelayMs: { min: 2_000, max: 2_000 } } });
    const process = await site.startProcess();
    const { deployment_id, slug, run } = await deployed(site);
    const [replica] = site.world.snapshot();
    site.world.crash(replica?.replicaId ?? "", { reason: "OutOfMemory", exitCode: 137 });
    await eventually(
      () => process.gateway.health().routes.held,
      (held) => held === 1,
    );
    assert.equal((await process.request(slug)).status, 200);
    const report = await site.reported(
      deployment_id,
      ({ target_phase, cause }) => target_phase === "ready" && cause !== null,
    );
    assert.deepEqual([report.cause?.reason, report.replicas[0]?.restarts], ["OutOfMemory", 1]);
    assert.equal(report.serving_revision_id, run.revision_id);
    const { last_exit: exit } = report;
    assert.deepEqual([exit?.id, exit?.cause.reason, exit?.restarts], [replica?.replicaId, "OutOfMemory", 1]);
  });

  test("fails no request when one of two replicas dies", async () => {
    await using site = await startSite();
    const process = await site.startProcess();
    const { slug, run } = await deployed(site, newRun({ min_replicas: 2 }));
    using load = keepAsking(process, slug);
    const [replica] = site.world.snapshot();
    site.world.crash(replica?.replicaId ?? "");
    await eventually(
      () =>
        site.world.snapshot().filter(({ phase, replicaId }) => phase === "ready" && replicaId !== replica?.replicaId)
          .length,
      (ready) => ready === 2,
    );
    assert.deepEqual(
      new Set((await load.end()).map(({ status, revision }) => `${status} ${revision}`)),
      new Set([`200 ${run.revision_id}`]),
    );
  });
});
