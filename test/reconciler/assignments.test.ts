import assert from "node:assert/strict";
import { sql } from "../../src/store/engine/sql.ts";
import { eachDatabase } from "../support/database.ts";
import { deployingSite } from "./deploying-site.ts";

eachDatabase(
  "a listener that deletes a deployment gets the namespace that the deployment was created for",
  async (db) => {
    const site = await deployingSite(db);
    await site.passDue();
    assert.equal("namespace" in (await site.desired()), false);
    await site.setNamespace("staging");
    await site.deleteIt();
    await site.passDue();
    const { op, namespace } = await site.desired();
    assert.deepEqual([op, namespace], ["delete", "staging"]);
  },
);

eachDatabase(
  "a listener gets sizes of queue replicas only for a deployment that wants workers, whatever a client sent back",
  async (db) => {
    const sizes = { queue_cpu: 1, queue_max_scale: 3 };
    const handed = async (spec: object) => {
      const site = await deployingSite(db);
      await db.query(sql`update listeners set builtin = false`);
      await site.setSpec(spec);
      await site.passDue();
      return (await site.desired()).target?.cluster?.spec;
    };
    assert.deepEqual(await handed({ cpu: 2, ...sizes }), { cpu: 2, ...sizes });
    assert.deepEqual(await handed({ cpu: 2, ...sizes, workers: false }), { cpu: 2 });
    assert.deepEqual(await handed({ cpu: 2, min_scale: 2, max_scale: 2, workers: true }), {
      ...{ cpu: 2, min_scale: 2, max_scale: 2 },
      queue_min_scale: 2,
    });
  },
);
