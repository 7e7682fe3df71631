import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import { DeploymentSort } from "../../src/contract/deployment.ts";
import { SortOrder } from "../../src/contract/page.ts";
import { createDeployment } from "../../src/store/create-deployment.ts";
import type { Db } from "../../src/store/database.ts";
import { type DeploymentFilter, deploymentKeys, listDeployments } from "../../src/store/deployment-list.ts";
import { eachDatabase } from "../database.ts";
import { makeWorld, newDeployment, type World } from "./fixtures.ts";

const deployments = 12_000;

eachDatabase(
  "a page of 12,000 deployments is read off an index in every order, both ways: nothing is sorted",
  async (db) => {
    const world = await manyDeployments(db);
    const [common] = await tagDeployments(db, world.tenantId);
    const asked: [DeploymentFilter, DeploymentSort][] = [
      ...DeploymentSort.enum.map((by): [DeploymentFilter, DeploymentSort] => [{}, by]),
      [{ tagValueIds: [common] }, "created_at"],
      [{ agentEnvironment: "production" }, "created_at"],
    ];
    for (const [filter, by] of asked) {
      for (const direction of SortOrder.enum) {
        const page = deploymentKeys(world.tenantId, filter, { limit: 50, offset: 0, order: { by, direction } });
        const { rows } = await sql<Record<"QUERY PLAN", string>>`explain ${page}`.execute(db.kysely);
        const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
        const what = `${JSON.stringify(filter)} ${by} ${direction}\n${plan}`;
        assert.match(plan, /Index (Only )?Scan/, what);
        assert.ok(!plan.includes("Sort"), what);
      }
    }
  },
);

eachDatabase("a page has what fits its filter, however many fit and wherever they are in the order", async (db) => {
  const world = await manyDeployments(db);
  const [common, rare] = await tagDeployments(db, world.tenantId);
  const cases: [DeploymentFilter, RawBuilder<unknown>][] = [
    // All, most but none of the newest 1,500, 1 of 100, one, none; short ones; signs that mean something elsewhere.
    [{ nameContains: "AGENT" }, sql`true`],
    [{ nameContains: "-old-" }, sql`name like '%-old-%'`],
    [{ nameContains: "77-" }, sql`name like '%77-%'`],
    [{ nameContains: "-11777-" }, sql`name like '%-11777-%'`],
    [{ nameContains: "agent-old-11777-x" }, sql`name = 'agent-old-11777-x'`],
    [{ nameContains: "gent%" }, sql`false`],
    [{ nameContains: "_ld" }, sql`false`],
    [{ nameContains: "7" }, sql`name like '%7%'`],
    [{ nameContains: "üx" }, sql`false`],
    [{ tagValueIds: [common] }, sql`seq % 3 = 0`],
    [{ tagValueIds: [rare] }, sql`seq % 1000 = 0`],
    [{ tagValueIds: [common, rare] }, sql`seq % 3000 = 0`],
    [{ tagValueIds: [common], nameContains: "-old-" }, sql`seq % 3 = 0 and name like '%-old-%'`],
    [{ tagValueIds: [rare], status: "READY" }, sql`seq % 1000 = 0 and status = 'READY'`],
    [{ isRemote: false, nameContains: "9-x" }, sql`name like '%9-x%'`],
    [{ isRemote: true }, sql`false`],
    [{ agentEnvironment: "staging" }, sql`false`],
    [{ agentEnvironment: "production" }, sql`seq % 100 = 1`],
    [{ agentEnvironment: "production", nameContains: "-old-" }, sql`seq % 100 = 1 and name like '%-old-%'`],
    [{ tagValueIds: [common], agentEnvironment: "production" }, sql`seq % 300 = 201`],
    [{ deploymentType: "dev", nameContains: "-old-1177" }, sql`name like '%-old-1177%'`],
  ];
  for (const [filter, condition] of cases) {
    for (const offset of [0, 30]) {
      for (const by of [undefined, "updated_at"] as const) {
        const first =
          by === undefined ? sql`(name = ${filter.nameContains ?? null}) desc nulls last, created_at` : sql`updated_at`;
        const { rows } = await sql<{ name: string }>`
          select name from deployments where tenant_id = ${world.tenantId} and ${condition}
           order by ${first} desc, seq desc limit 20 offset ${offset}`.execute(db.kysely);
        const found = await listDeployments(db, world.tenantId, filter, { limit: 20, offset, order: { by } });
        const what = `${JSON.stringify(filter)} from ${offset} by ${by}`;
        assert.deepEqual(
          found.map(({ name }) => name),
          rows.map(({ name }) => name),
          what,
        );
      }
    }
  }
});

/** All in an own workspace; of `agent-old-<n>-x`, the newest 1,500 are `agent-new-<n>-x`. One of 100 is an agent's. */
async function manyDeployments(db: Db): Promise<World> {
  const world = await makeWorld(db);
  const one = newDeployment(world);
  await createDeployment(db, one);
  const { rows: columns } = await sql<{ name: string }>`
    select column_name as name from information_schema.columns
     where table_schema = current_schema() and table_name = 'deployments' and is_generated = 'NEVER'
       and identity_generation is null
       and column_name not in ('id', 'name', 'slug', 'status', 'created_at', 'updated_at')`.execute(db.kysely);
  const copied = sql.join(columns.map(({ name }) => sql.ref(name)));
  await sql`
    insert into deployments (id, name, slug, status, created_at, updated_at, ${copied})
    select gen_random_uuid(), 'agent-' || case when n <= 1500 then 'new' else 'old' end || '-' || n || '-x', 'agent-' || n,
           case when n % 2 = 0 then 'READY' else 'UNUSED' end, now() - n * interval '1 second',
           now() - (n * 7919 % ${deployments}) * interval '1 second', ${copied}
      from deployments, generate_series(${deployments}, 2, -1) n where id = ${one.id}`.execute(db.kysely);
  await sql`delete from deployments where id = ${one.id}`.execute(db.kysely);
  await sql`
    update deployments set agent_id = gen_random_uuid(), agent_environment = 'production'
     where tenant_id = ${world.tenantId} and seq % 100 = 1`.execute(db.kysely);
  await sql`analyze deployments`.execute(db.kysely);
  return world;
}

/** One value for a third of all, one of another tag for one of a thousand. */
async function tagDeployments(db: Db, tenantId: string): Promise<[string, string]> {
  const add = async (name: string, step: number): Promise<string> => {
    const id = randomUUID();
    await sql`
      with made as (insert into tag_keys (id, tenant_id, name) values (gen_random_uuid(), ${tenantId}, ${name}) returning id)
      insert into tag_values (id, tag_key_id, name) select ${id}::uuid, id, 'value' from made`.execute(db.kysely);
    await sql`
      insert into deployment_tags (deployment_id, tag_value_id)
      select id, ${id}::uuid from deployments where tenant_id = ${tenantId} and seq % ${sql.lit(step)} = 0`.execute(
      db.kysely,
    );
    return id;
  };
  const values: [string, string] = [await add("common", 3), await add("rare", 1_000)];
  await sql`analyze deployment_tags`.execute(db.kysely);
  return values;
}
