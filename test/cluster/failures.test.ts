import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import type { DeploymentReport, RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { eventually } from "../support/eventually.ts";
import { healthWordOf, openRestrictedSite, read, runOf, serviceUrl, startClusterWorld } from "./cluster-world.ts";

const world = await startClusterWorld();
after(() => world[Symbol.asyncDispose]());

suite("failures", { concurrency: 3 }, () => {
  test("a first revision that keeps exiting fails with its last words, and its pods are stopped", async () => {
    await using site = await openRestrictedSite(world);
    const deployment_id = "5d2f6ab0-1f9c-4d9b-8f5f-6c2f6a3f0001";
    site.controlPlane.assign({ deployment_id, target: runOf(site, world.images.crashing) });
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
    await using site = await openRestrictedSite(world);
    const { deployment_id, slug } = await site.deployed(runOf(site, world.images.first));
    const url = await serviceUrl(world, site, slug);
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
    await using site = await openRestrictedSite(world);
    const { deployment_id, slug } = await site.deployed(runOf(site, world.images.first));
    site.controlPlane.assign({ deployment_id, target: runOf(site, `${world.images.first}-missing`) });
    const waiting = await site.reported(deployment_id, ({ cause }) => cause?.reason === "ImagePull");
    assert.match(waiting.cause?.message ?? "", /agent:1-missing cannot be pulled/);
    await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.equal(await read(`${await serviceUrl(world, site, slug)}/`), "200 one");
  });

  test("a server that uses more memory than its limit is reported as crash looping, with the limit as the cause", async () => {
    await using site = await openRestrictedSite(world);
    const { deployment_id, slug } = await site.deployed(runOf(site, world.images.first));
    const url = await serviceUrl(world, site, slug);
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
    await using site = await openRestrictedSite(world);
    const deployment_id = "5d2f6ab0-1f9c-4d9b-8f5f-6c2f6a3f0002";
    const run = runOf(site, world.images.first);
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
