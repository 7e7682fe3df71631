import assert from "node:assert/strict";
import { test } from "node:test";
import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { startTestServer } from "../support/server.ts";

test("applies the limits of a new size to the same artifact without another build", async () => {
  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
  const { client, server } = pierhead;
  const made = await client.createDeployment({
    body: {
      name: "sized",
      source: "internal_template",
      source_config: { template_id: "node-server", deployment_type: "prod" },
      source_revision_config: {},
    },
  });
  const ids = { deployment_id: made.id };
  const settled = async (revisionId: string | null) => {
    const revision = await client.waitForRevision({ ...ids, revision_id: revisionId as string });
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    const { rows } = await server.db.query<{ run: RevisionRun }>(sql`
      select spec -> 'target' as run from assignments where deployment_id = ${made.id}`);
    return rows[0]?.run as RevisionRun;
  };
  const small = await settled(made.latest_revision_id);
  assert.deepEqual([small.cpu_limit_cores, small.memory_limit_mib], [3, 6 * 1024]);
  const resized = await client.patchDeploymentTier({ ...ids, body: { deployment_tier: "DEDICATED_M" } });
  const larger = await settled(resized.latest_revision_id);
  assert.deepEqual([larger.cpu_limit_cores, larger.memory_limit_mib], [5, 12 * 1024]);
  assert.deepEqual(larger.artifact, small.artifact);
  const { rows } = await server.db.query(sql`select 1 from builds where deployment_id = ${made.id}`);
  assert.equal(rows.length, 1);
});
