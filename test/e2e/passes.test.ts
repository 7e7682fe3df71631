import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";

const deployments = 40;

test("a rollout takes two passes, because neither its own writes nor irrelevant reports enqueue another", async () => {
  await using made = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
  const { db } = made.server;
  const create = (number: number) =>
    made.client.createDeployment({
      body: {
        name: `rollout-${number}`,
        source: "external_docker",
        source_config: {},
        source_revision_config: { image_uri: "registry.example/team/agent:1.0.0" },
      },
    });
  await Promise.all(Array.from({ length: deployments }, (_, number) => create(number)));
  const settled = async () => {
    const { rows } = await db.query<{ passes: number }>(sql`
      select jsonb_array_length(q.outcomes) as passes
        from reconcile_queue q join deployments d on d.id = q.deployment_id join observations o on o.deployment_id = d.id
       where d.active_revision_id is not null and q.run_at is null and q.lease_owner is null
         and o.generation = 2`);
    return rows.map(({ passes }) => passes);
  };
  const passes = await eventually(settled, (all) => all.length === deployments);
  // The first pass moves the revision to DEPLOYING, the second finishes the rollout.
  assert.deepEqual(new Set(passes), new Set([2]));
});
