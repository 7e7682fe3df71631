import assert from "node:assert/strict";
import { test } from "node:test";
import type { DeploymentTier, Size } from "../../src/contract/deployments/deployment.ts";
import { applyPatch, applyResourceTiers } from "../../src/domain/patch.ts";
import { context, current, refusal } from "./fixtures.ts";

test("a tier must fit its type, and only a change of size creates a revision, with the same code", () => {
  const sized = (deployment: DeploymentTier | null, compute: Size | null = null) => {
    const { sourceRevisionConfig } = current("github");
    const resolved = { ...sourceRevisionConfig, repo_commit_sha: "a".repeat(40) };
    return current("github", {
      tiers: { deployment, compute, database: null },
      sourceRevisionConfig: resolved,
    });
  };
  const { revision, tiers } = applyPatch(sized(null, "L"), { deployment_tier: "DEDICATED_M" }, context);
  assert.deepEqual(revision?.sizes, { compute: "M", database: "M" });
  assert.deepEqual(tiers, { deployment: "DEDICATED_M", compute: null, database: null });
  assert.equal(revision?.sourceRevisionConfig.repo_commit_sha, "a".repeat(40));
  for (const [has, wanted] of [
    ["DEDICATED_M", "DEDICATED_M"],
    [null, "DEDICATED_S"],
  ] as const) {
    assert.equal(applyPatch(sized(has), { deployment_tier: wanted }, context).revision, null);
  }
  const moved = { deployment_tier: "DEDICATED_L", source_revision_config: { repo_ref: "main" } } as const;
  assert.equal(applyPatch(sized(null), moved, context).revision?.sourceRevisionConfig.repo_commit_sha, null);
  assert.match(
    refusal(() => applyPatch(sized(null), { deployment_tier: "SERVERLESS_M" }, context)),
    /^400 invalidField: .*must be one of DEDICATED_S, DEDICATED_M, DEDICATED_L/,
  );
});

test("runtime and database have separate sizes, but a serverless deployment has no database size", () => {
  const both = applyResourceTiers(current("github"), { compute_tier: "L", database_tier: "DEDICATED_M" }, context);
  assert.deepEqual(both.revision?.sizes, { compute: "L", database: "M" });
  assert.deepEqual(both.tiers, { deployment: null, compute: "L", database: "M" });
  const again = applyResourceTiers(current("github", { tiers: both.tiers }), { compute_tier: "L" }, context);
  assert.equal(again.revision, null);
  const { sourceConfig } = current("internal_source");
  const serverless = current("internal_source", { sourceConfig: { ...sourceConfig, deployment_type: "dev_zero" } });
  for (const [deployment, tiers, because] of [
    [current("github"), {}, /must be given/],
    [current("github"), { compute_tier: null, database_tier: null }, /must be given/],
    [current("github"), { compute_tier: "SERVERLESS_M" }, /must be one of DEDICATED_S/],
    [serverless, { compute_tier: "M", database_tier: "M" }, /share a database/],
    [current("external_docker"), { compute_tier: "M" }, /not available for this type/],
  ] as const) {
    assert.match(
      refusal(() => applyResourceTiers(deployment, tiers, context)),
      because,
    );
  }
  const serverlessSizes = applyResourceTiers(serverless, { compute_tier: "M" }, context).revision?.sizes;
  assert.deepEqual(serverlessSizes, { compute: "M", database: "S" });
});

test("before there is code to run a size is only stored", () => {
  const made = current("internal_source");
  const empty = { ...made.sourceRevisionConfig, source_tarball_path: null, langgraph_config_path: null };
  const waiting = current("internal_source", { sourceRevisionConfig: empty, latestRevisionSource: null });
  const { revision, tiers } = applyPatch(waiting, { deployment_tier: "DEDICATED_L" }, context);
  assert.deepEqual([revision, tiers.deployment], [null, "DEDICATED_L"]);
});

test("development types and external images have no tier", () => {
  for (const source of ["external_docker", "internal_template"] as const) {
    const { sourceConfig } = current(source);
    const type = source === "external_docker" ? null : ("dev" as const);
    const deployment = current(source, { sourceConfig: { ...sourceConfig, deployment_type: type } });
    assert.match(
      refusal(() => applyPatch(deployment, { deployment_tier: "DEDICATED_S" }, context)),
      /^400 invalidField: .*not available for this type/,
    );
  }
});
