import assert from "node:assert/strict";
import { test } from "node:test";
import { adviceOn, wayOut } from "../../src/cli/deployments/way-out.ts";
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

test("removes the choice of an engine that the project or the server cannot run", () => {
  const needs = "The engine postgres needs a PostgreSQL, and this deployment has none.";
  const refused = { code: "start_refused" as const, variables: [] };
  const given = { message: needs, text: "Correct the start command or the image, then deploy again." };
  const withEngine = (engine: "postgres" | null) => ({
    ...failed,
    source: "internal_template" as const,
    source_config: { ...failed.source_config, engine },
  });
  assert.deepEqual(adviceOn(withEngine("postgres"), refused, given), {
    text: "Give the engine what it needs, or remove the choice of the engine.",
    command: "pierhead change support --engine default",
  });
  assert.deepEqual(adviceOn(withEngine(null), refused, given), { text: given.text, command: "pierhead retry support" });
  const other = { ...given, message: "The server did not start." };
  assert.equal(adviceOn(withEngine("postgres"), refused, other).command, "pierhead retry support");
});
