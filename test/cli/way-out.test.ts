import assert from "node:assert/strict";
import { test } from "node:test";
import { wayOut } from "../../src/cli/deployments/way-out.ts";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import { deploymentExample } from "../../src/contract/examples.ts";
import { failureCodes } from "../../src/contract/revisions/failure.ts";

const failed = { ...(deploymentExample as Deployment), name: "support", active_revision_id: null };

test("names a command for every failure", () => {
  const without = failureCodes.filter((code) => wayOut(failed, { code, variables: [] }) === null);
  assert.deepEqual(without, []);
});

test("retries a revision that failed, and restarts one that serves", () => {
  const id = "3c1f6f2e-5d6b-4c39-9a55-0d3ff0c5a111";
  const lost = { code: "lost" as const, variables: [] };
  assert.equal(wayOut({ ...failed, latest_revision_id: id }, lost), "pierhead retry support");
  assert.equal(wayOut({ ...failed, latest_revision_id: id, active_revision_id: id }, lost), "pierhead restart support");
});

test("suggests no other image where the server runs none", () => {
  const image = { ...failed, source: "external_docker" as const, latest_revision_id: "new" };
  assert.equal(wayOut(image, { code: "unsupported", variables: [] }), "pierhead retry support");
  assert.equal(wayOut(image, { code: "image_missing", variables: [] }), "pierhead change support --image IMAGE");
});

test("removes the choice of an engine that cannot run, and deploys a source that names one again", () => {
  const refused = { code: "engine_unavailable" as const, variables: [] };
  const withEngine = (engine: "postgres" | null) => ({
    ...failed,
    source: "internal_template" as const,
    source_config: { ...failed.source_config, engine },
  });
  assert.equal(wayOut(withEngine("postgres"), refused), "pierhead change support --engine default");
  assert.equal(wayOut(withEngine(null), refused), "pierhead retry support");
});
