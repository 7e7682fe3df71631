import assert from "node:assert/strict";
import { sql } from "kysely";
import { DeploymentSort } from "../../src/contract/deployment.ts";
import { SortOrder } from "../../src/contract/page.ts";
import { createDeployment } from "../../src/store/create-deployment.ts";
import { deploymentPage } from "../../src/store/deployment-list.ts";
import { eachDatabase } from "../database.ts";
import { makeWorld, newDeployment } from "./fixtures.ts";

const deployments = 10_000;

eachDatabase(
  "a page of 10,000 deployments is read off an index in every order, both ways: nothing is sorted",
  async (db) => {
    const world = await makeWorld(db);
    const one = newDeployment(world);
    await createDeployment(db, one);
    const { rows: columns } = await sql<{ name: string }>`
    select column_name as name from information_schema.columns
     where table_schema = current_schema() and table_name = 'deployments' and is_generated = 'NEVER'
       and identity_generation is null and column_name not in ('id', 'name', 'slug', 'created_at', 'updated_at')`.execute(
      db.kysely,
    );
    const copied = sql.join(columns.map(({ name }) => sql.ref(name)));
    await sql`
    insert into deployments (id, name, slug, created_at, updated_at, ${copied})
    select gen_random_uuid(), 'agent-' || n, 'agent-' || n, now() - n * interval '1 second',
           now() - (n * 7919 % ${deployments}) * interval '1 second', ${copied}
      from deployments, generate_series(2, ${deployments}) n where id = ${one.id}`.execute(db.kysely);
    await sql`analyze deployments`.execute(db.kysely);
    for (const by of DeploymentSort.enum) {
      for (const direction of SortOrder.enum) {
        const page = deploymentPage(world.tenantId, {}, { limit: 50, offset: 0, order: { by, direction } });
        const { rows } = await sql<Record<"QUERY PLAN", string>>`explain ${page}`.execute(db.kysely);
        const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
        assert.match(plan, /Index Scan/, `${by} ${direction}\n${plan}`);
        assert.ok(!plan.includes("Sort"), `${by} ${direction}\n${plan}`);
        assert.equal((await page.execute(db.kysely)).rows.length, 50);
      }
    }
  },
);
