import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { DeploymentSort } from "../../src/contract/deployments/deployment.ts";
import { SortOrder } from "../../src/contract/page.ts";
import { createDeployment } from "../../src/store/deployments/create-deployment.ts";
import {
  type DeploymentFilter,
  type DeploymentOrder,
  deploymentKeys,
  listDeployments,
} from "../../src/store/deployments/deployment-list.ts";
import { taggedWith } from "../../src/store/deployments/deployment-tags.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { type Sql, sql } from "../../src/store/engine/sql.ts";
import { eachDatabase } from "../support/database.ts";
import { makeWorld, newDeployment, type World } from "./fixtures.ts";

const deployments = 12_000;

eachDatabase(
  "reads a page of 12,000 deployments from an index in every order and direction, without sorting",
  async (db) => {
    const world = await manyDeployments(db);
    const [common, rare] = await tagDeployments(db, world.tenantId);
    const asked: [DeploymentFilter, DeploymentSort][] = [
      ...DeploymentSort.enum.map((by): [DeploymentFilter, DeploymentSort] => [{}, by]),
      [{ tagValueIds: [common] }, "created_at"],
      [{ tagValueIds: [common, rare] }, "created_at"],
      [{ agentEnvironment: "production" }, "created_at"],
    ];
    for (const [filter, by] of asked) {
      const tags = filter.tagValueIds && (await taggedWith(db, world.tenantId, filter.tagValueIds));
      for (const direction of SortOrder.enum) {
        const page = { limit: 50, offset: 0, order: { by, direction }, ...(tags && { tags }) };
        for (const isKept of [false, true]) {
          const plan = await planOf(db, deploymentKeys(world.tenantId, filter, page), isKept);
          const what = `${JSON.stringify(filter)} ${by} ${direction}, ${isKept ? "kept" : "made for it"}\n${plan}`;
          assert.match(plan, /Index (Only )?Scan/, what);
          // The ten deployments of a rare tag may be sorted.
          if (filter.tagValueIds?.length !== 2) assert.ok(!plan.includes("Sort"), what);
          assert.ok(!plan.includes("Seq Scan on deployments"), what);
        }
      }
    }
  },
);

eachDatabase("skips the rows of an offset in the page index without fetching them", async (db) => {
  const world = await manyDeployments(db);
  for (const direction of SortOrder.enum) {
    const page = { limit: 50, offset: 10_000, order: { by: "created_at", direction } } as const;
    for (const isKept of [false, true]) {
      const plan = await planOf(db, deploymentKeys(world.tenantId, {}, page), isKept);
      assert.match(plan, /Index Only Scan (Backward )?using deployments_page/, plan);
    }
  }
});

/** The plan for these parameters, or the generic plan, which PostgreSQL caches. */
async function planOf(db: Db, query: Sql, isKept: boolean): Promise<string> {
  const { text, values: parameters } = query;
  return db.transaction(async (trx) => {
    await trx.query(sql`set local plan_cache_mode = ${sql.raw(isKept ? "force_generic_plan" : "force_custom_plan")}`);
    await trx.query(sql.raw(`prepare planned as ${text}`));
    const values = parameters.map((value) =>
      value === null ? sql.raw("null") : sql.literal(Array.isArray(value) ? `{${value}}` : (value as string | number)),
    );
    const { rows } = await trx.query<Record<"QUERY PLAN", string>>(sql`explain execute planned (${sql.join(values)})`);
    await trx.query(sql`deallocate planned`);
    return rows.map((row) => row["QUERY PLAN"]).join("\n");
  });
}

eachDatabase("plans a list of 12,000 deployments once, not for every page", async (db) => {
  const world = await manyDeployments(db);
  const [common] = await tagDeployments(db, world.tenantId);
  const filters: DeploymentFilter[] = [
    {},
    { nameContains: "agent" },
    { nameContains: "77-" },
    { textContains: "77-" },
    { status: "READY" },
    { isRemote: false },
    { tagValueIds: [common] },
    { agentEnvironment: "production" },
  ];
  for (const filter of filters) {
    const planned = async () => {
      const { rows } = await db.query<{ plans: number; kept: number }>(sql`
        select sum(custom_plans)::int as plans, sum(generic_plans)::int as kept
          from pg_prepared_statements where statement like '%from deployment%'`);
      return rows[0] ?? { plans: 0, kept: 0 };
    };
    // PostgreSQL makes five custom plans before it caches one, for each of the at most two statements of a list.
    const page = { limit: 20, offset: 0, order: { by: "created_at" } } as const;
    for (let asked = 0; asked < 6; asked += 1) await listDeployments(db, world.tenantId, filter, page);
    const before = await planned();
    for (let asked = 0; asked < 4; asked += 1) await listDeployments(db, world.tenantId, filter, page);
    const after = await planned();
    assert.equal(after.plans, before.plans, `${JSON.stringify(filter)} was planned again`);
    assert.ok(after.kept >= before.kept + 4, `${JSON.stringify(filter)} did not use a cached plan`);
  }
});

eachDatabase("searches the rare parts of a name, not those that most names have", async (db) => {
  const world = await manyDeployments(db);
  const start = world.tenantId.slice(0, 8);
  const parts = ["age", "117", "old", "177", "777"].map((part) => start + part);
  const { rows } = await db.query<{ rare: string[] }>(sql`select rare_parts(${parts}::text[]) as rare`);
  assert.deepEqual(rows[0]?.rare.toSorted(), [`${start}177`, `${start}777`]);
});

eachDatabase(
  "a page has the matches of its filter, however many match and wherever they are in the order",
  async (db) => {
    const world = await manyDeployments(db);
    const [common, rare] = await tagDeployments(db, world.tenantId);
    const cases: [DeploymentFilter, Sql][] = [
      // All, most but none of the newest 1,500, 1 of 100, one, none; short parts; characters with a meaning in patterns.
      [{ nameContains: "AGENT" }, sql`true`],
      [{ nameContains: "-old-" }, sql`name like '%-old-%'`],
      [{ nameContains: "77-" }, sql`name like '%77-%'`],
      [{ nameContains: "77-", status: "READY" }, sql`name like '%77-%' and status = 'READY'`],
      [{ nameContains: "3-X", agentEnvironment: "production" }, sql`name like '%3-x' and seq % 100 = 1`],
      [{ nameContains: "-11777-" }, sql`name like '%-11777-%'`],
      [{ nameContains: "agent-old-11777-x" }, sql`name = 'agent-old-11777-x'`],
      [{ nameContains: "gent%" }, sql`false`],
      [{ nameContains: "_ld" }, sql`false`],
      [{ nameContains: "7" }, sql`name like '%7%'`],
      [{ nameContains: "üx" }, sql`false`],
      [{ textContains: "AGENT-OLD" }, sql`name like '%-old-%'`],
      [{ textContains: "agent-old-11777-x" }, sql`name = 'agent-old-11777-x'`],
      [{ textContains: "77-", status: "READY" }, sql`name like '%77-%' and status = 'READY'`],
      [{ tagValueIds: [common], textContains: "-old-" }, sql`seq % 3 = 0 and name like '%-old-%'`],
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
        for (const order of orders) {
          const { by, direction = "desc" } = order;
          const first =
            by === undefined
              ? sql`(name = ${filter.nameContains ?? filter.textContains ?? null}) desc nulls last, created_at`
              : sql.identifier(by);
          const { rows } = await db.query<{ name: string }>(sql`
          select name from deployments where tenant_id = ${world.tenantId} and ${condition}
           order by ${first} ${sql.raw(direction)}, seq ${sql.raw(direction)} limit 20 offset ${offset}`);
          const found = await listDeployments(db, world.tenantId, filter, { limit: 20, offset, order });
          const what = `${JSON.stringify(filter)} from ${offset} by ${JSON.stringify(order)}`;
          assert.deepEqual(
            found.map(({ name }) => name),
            rows.map(({ name }) => name),
            what,
          );
        }
      }
    }
  },
);

/** The default order, newest first; another order; oldest first, which searches the days in the other direction. */
const orders: DeploymentOrder[] = [{}, { by: "updated_at" }, { by: "created_at", direction: "asc" }];

/** All in a workspace of their own, over eight days, named `agent-old-<n>-x`; the newest 1,500 are `agent-new-<n>-x`. One of 100 has an agent. */
async function manyDeployments(db: Db): Promise<World> {
  const world = await makeWorld(db);
  const one = newDeployment(world);
  await createDeployment(db, one);
  const { rows: columns } = await db.query<{ name: string }>(sql`
    select column_name as name from information_schema.columns
     where table_schema = current_schema() and table_name = 'deployments' and is_generated = 'NEVER'
       and identity_generation is null
       and column_name not in ('id', 'name', 'slug', 'status', 'created_at', 'updated_at')`);
  const copied = sql.join(columns.map(({ name }) => sql.identifier(name)));
  await db.query(sql`
    insert into deployments (id, name, slug, status, created_at, updated_at, ${copied})
    select gen_random_uuid(), 'agent-' || case when n <= 1500 then 'new' else 'old' end || '-' || n || '-x', 'agent-' || n,
           case when n % 2 = 0 then 'READY' else 'UNUSED' end, now() - n * interval '1 minute',
           now() - (n * 7919 % ${deployments}) * interval '1 second', ${copied}
      from deployments, generate_series(${deployments}, 2, -1) n where id = ${one.id}`);
  await db.query(sql`delete from deployments where id = ${one.id}`);
  await db.query(sql`
    update deployments set agent_id = gen_random_uuid(), agent_environment = 'production'
     where tenant_id = ${world.tenantId} and seq % 100 = 1`);
  await db.query(sql`vacuum (analyze) deployments`);
  return world;
}

/** One value on a third of all deployments, and one of another tag on one of a thousand. */
async function tagDeployments(db: Db, tenantId: string): Promise<[string, string]> {
  const add = async (name: string, step: number): Promise<string> => {
    const id = randomUUID();
    await db.query(sql`
      with made as (insert into tag_keys (id, tenant_id, name) values (gen_random_uuid(), ${tenantId}, ${name}) returning id)
      insert into tag_values (id, tag_key_id, name) select ${id}::uuid, id, 'value' from made`);
    await db.query(sql`
      insert into deployment_tags (deployment_id, tag_value_id)
      select id, ${id}::uuid from deployments where tenant_id = ${tenantId} and seq % ${sql.literal(step)} = 0`);
    return id;
  };
  const values: [string, string] = [await add("common", 3), await add("rare", 1_000)];
  await db.query(sql`analyze deployment_tags`);
  return values;
}
