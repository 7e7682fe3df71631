import assert from "node:assert/strict";
import { claimBuild } from "../../src/store/builds/builds.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { acquireLease, releaseLease, renewLease } from "../../src/store/queue/leases.ts";
import { claim, enqueue, settlePass } from "../../src/store/queue/reconcile-queue.ts";
import { takeOverLeases } from "../../src/store/queue/release-leases.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld } from "./fixtures.ts";

const leaseMs = 60_000;

eachDatabase("of many concurrent requests for a lease one succeeds, until it is released", async (db) => {
  const owners = Array.from({ length: 10 }, (_, i) => `server-${i}`);
  const ask = async () => {
    const got = await Promise.all(owners.map((owner) => acquireLease(db, { name: "sweep", owner, leaseMs })));
    return owners.filter((_, i) => got[i]);
  };
  const [first, ...more] = await ask();
  assert.ok(first !== undefined);
  assert.deepEqual(more, []);
  assert.deepEqual(await ask(), [first], "its owner may acquire it again");
  await releaseLease(db, { name: "sweep", owner: "someone else" });
  assert.deepEqual(await ask(), [first]);
  await releaseLease(db, { name: "sweep", owner: first });
  assert.equal((await ask()).length, 1);
  assert.equal(await acquireLease(db, { name: "another", owner: "x", leaseMs }), true);
});

eachDatabase("an expired lease can be taken, and its old owner notices at the next renewal", async (db) => {
  assert.equal(await acquireLease(db, { name: "sweep", owner: "old", leaseMs }), true);
  assert.equal(await renewLease(db, { name: "sweep", owner: "old", leaseMs }), true);
  await db.query(sql`update leases set lease_until = now() - interval '1 second'`);
  assert.equal(await acquireLease(db, { name: "sweep", owner: "new", leaseMs }), true);
  assert.equal(await renewLease(db, { name: "sweep", owner: "old", leaseMs }), false);
  assert.equal(await acquireLease(db, { name: "sweep", owner: "old", leaseMs }), false);
});

eachDatabase(
  "a restarted server gets its own unfinished work at once, and leaves other servers' work alone",
  async (db) => {
    const world = await makeWorld(db);
    const inAnHour = new Date(db.now().getTime() + 3_600_000);
    const building = async (owner: string) => {
      const { id: deploymentId, revisionId } = await makeDeployment(db, world);
      await db.query(sql`update revisions set status = 'AWAITING_BUILD' where id = ${revisionId}`);
      await claimBuild(db, { id: revisionId, deploymentId }, { owner, leaseMs, deadlineAt: inAnHour });
      await db.query(sql`delete from reconcile_queue where deployment_id = ${deploymentId}`);
      await enqueue(db, deploymentId, { runAt: inAnHour });
      return deploymentId;
    };
    const passing = async (owner: string) => {
      const { id } = await makeDeployment(db, world);
      const [held] = await claim(db, { owner, limit: 1, leaseMs });
      assert.equal(held?.deploymentId, id);
      return { id, held };
    };
    const mine = [await building("dead:1"), (await passing("dead:1")).id];
    const others = [await building("alive:1")];
    const { id, held } = await passing("alive:1");
    await takeOverLeases(db, "dead");
    const due = await claim(db, { owner: "dead:2", limit: 10, leaseMs });
    assert.deepEqual(due.map(({ deploymentId }) => deploymentId).sort(), mine.sort());
    assert.ok(!due.some(({ deploymentId }) => others.includes(deploymentId)));
    const outcome = { kind: "converged", because: "all is there", durationMs: 1 };
    const key = { deploymentId: id, owner: "alive:1", generation: held.generation };
    assert.equal(await settlePass(db, { ...key, outcome, retryAt: null }), true, "a living server ends its own pass");
  },
);
