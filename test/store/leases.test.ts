import assert from "node:assert/strict";
import { sql } from "kysely";
import { acquireLease, releaseLease, renewLease } from "../../src/store/leases.ts";
import { eachDatabase } from "../database.ts";

const leaseMs = 60_000;

eachDatabase("of many who ask for a lease at once, one has it, until it gives it up", async (db) => {
  const owners = Array.from({ length: 10 }, (_, i) => `server-${i}`);
  const ask = async () => {
    const got = await Promise.all(owners.map((owner) => acquireLease(db, { name: "sweep", owner, leaseMs })));
    return owners.filter((_, i) => got[i]);
  };
  const [first, ...more] = await ask();
  assert.ok(first !== undefined);
  assert.deepEqual(more, []);
  assert.deepEqual(await ask(), [first], "its owner may ask again");
  await releaseLease(db, { name: "sweep", owner: "someone else" });
  assert.deepEqual(await ask(), [first]);
  await releaseLease(db, { name: "sweep", owner: first });
  assert.equal((await ask()).length, 1);
  assert.equal(await acquireLease(db, { name: "another", owner: "x", leaseMs }), true);
});

eachDatabase("a lease that ran out can be taken, and its old owner learns so at the next renewal", async (db) => {
  assert.equal(await acquireLease(db, { name: "sweep", owner: "old", leaseMs }), true);
  assert.equal(await renewLease(db, { name: "sweep", owner: "old", leaseMs }), true);
  await sql`update leases set lease_until = now() - interval '1 second'`.execute(db.kysely);
  assert.equal(await acquireLease(db, { name: "sweep", owner: "new", leaseMs }), true);
  assert.equal(await renewLease(db, { name: "sweep", owner: "old", leaseMs }), false);
  assert.equal(await acquireLease(db, { name: "sweep", owner: "old", leaseMs }), false);
});
