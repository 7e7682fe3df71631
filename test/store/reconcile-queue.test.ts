import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import {
  type Claim,
  claim,
  dropFromQueue,
  enqueue,
  failPass,
  heartbeat,
  nextRunAt,
  settlePass,
} from "../../src/store/queue/reconcile-queue.ts";
import { eachDatabase } from "../support/database.ts";

const done = { kind: "converged", because: "all is well", durationMs: 12.4 };
const leaseMs = 60_000;

eachDatabase("a deployment enqueued many times is claimed once", async (db) => {
  const id = randomUUID();
  for (let i = 0; i < 5; i += 1) await enqueue(db, id);
  const claims = await Promise.all(["a", "b", "c"].map((owner) => claim(db, { owner, limit: 10, leaseMs })));
  assert.deepEqual(
    claims.flat().map((one) => one.deploymentId),
    [id],
  );
});

eachDatabase("a change during a pass leads to another pass, after the first one ends", async (db) => {
  const id = randomUUID();
  await enqueue(db, id);
  const first = await claimOne(db, "a");
  await enqueue(db, id);
  assert.deepEqual(await claim(db, { owner: "b", limit: 1, leaseMs }), [], "while the pass runs");
  assert.equal(await settlePass(db, { ...first, owner: "a", outcome: done, retryAt: null }), true);
  const second = await claimOne(db, "b");
  assert.equal(await settlePass(db, { ...second, owner: "b", outcome: done, retryAt: null }), true);
  assert.deepEqual(await claim(db, { owner: "b", limit: 1, leaseMs }), []);
  assert.equal(await nextRunAt(db), null);
});

eachDatabase("a settled pass runs again at its retry time, or earlier after a change", async (db) => {
  const id = randomUUID();
  await enqueue(db, id);
  const retryAt = new Date(Date.now() + 3_600_000);
  await settlePass(db, { ...(await claimOne(db, "a")), owner: "a", outcome: done, retryAt });
  assert.deepEqual(await claim(db, { owner: "a", limit: 1, leaseMs }), []);
  assert.deepEqual(await nextRunAt(db), retryAt);
  await enqueue(db, id, { runAt: new Date(Date.now() + 7_200_000) });
  assert.deepEqual(await nextRunAt(db), retryAt, "a later time does not delay it");
  await enqueue(db, id);
  await claimOne(db, "a");
});

eachDatabase(
  "a pass of a deleted deployment deletes the queue row, unless another worker has claimed it",
  async (db) => {
    const id = randomUUID();
    await enqueue(db, id);
    const first = { ...(await claimOne(db, "a")), owner: "a" };
    await dropFromQueue(db, { ...first, owner: "b" });
    await dropFromQueue(db, { ...first, generation: first.generation - 1 });
    assert.equal((await heartbeat(db, { owner: "a", deploymentIds: [id], leaseMs })).length, 0, "still there");
    await dropFromQueue(db, first);
    assert.deepEqual(await heartbeat(db, { owner: "a", deploymentIds: [id], leaseMs }), [id]);
  },
);

eachDatabase("claims the longest waiting first, and never more than requested", async (db) => {
  const ids = Array.from({ length: 6 }, () => randomUUID());
  for (const [i, id] of ids.entries()) await enqueue(db, id, { runAt: new Date(Date.now() - (i + 1) * 60_000) });
  const claims = await claim(db, { owner: "a", limit: 4, leaseMs });
  assert.deepEqual(new Set(claims.map((one) => one.deploymentId)), new Set(ids.slice(2)));
});

eachDatabase("only the claim that holds the lease can settle, fail or renew", async (db) => {
  const id = randomUUID();
  await enqueue(db, id);
  const old = await claimOne(db, "a");
  await expireLeases(db);
  const [taken] = await claim(db, { owner: "b", limit: 1, leaseMs });
  assert.ok(taken !== undefined);
  assert.equal(taken.attempts, 1, "an expired lease counts as a failed pass");
  assert.equal(await settlePass(db, { ...old, owner: "a", outcome: done, retryAt: null }), false);
  assert.equal(await failPass(db, { ...old, owner: "a", because: "x", durationMs: 1 }), false);
  assert.deepEqual(await heartbeat(db, { owner: "a", deploymentIds: [id], leaseMs }), [id]);
  assert.deepEqual(await heartbeat(db, { owner: "b", deploymentIds: [id], leaseMs }), []);
  await expireLeases(db);
  const [again] = await claim(db, { owner: "b", limit: 1, leaseMs });
  assert.ok(again !== undefined, "a server may reclaim a deployment it lost");
  assert.equal(
    await settlePass(db, { ...taken, owner: "b", outcome: done, retryAt: null }),
    false,
    "its own older claim",
  );
  assert.equal(await settlePass(db, { ...again, owner: "b", outcome: done, retryAt: null }), true);
});

eachDatabase("an owner whose name is a prefix of another's does not hold its leases", async (db) => {
  const id = randomUUID();
  await enqueue(db, id);
  await claimOne(db, "server-1");
  assert.deepEqual(await heartbeat(db, { owner: "server", deploymentIds: [id], leaseMs }), [id]);
});

eachDatabase(
  "failures back off 1 s, 2 s, 4 s ... 5 min, each times 0.5 to 1, and a success starts over",
  async (db) => {
    const id = randomUUID();
    await enqueue(db, id);
    for (const [attempts, seconds] of [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].entries()) {
      await db.query(sql`update reconcile_queue set run_at = now()`);
      const pass = await claimOne(db, "a");
      assert.equal(pass.attempts, attempts);
      await failPass(db, { ...pass, owner: "a", because: "it broke", durationMs: 1 });
      const delayS = await secondsFromFailure(db);
      assert.ok(delayS <= seconds && delayS >= seconds / 2 - 0.001, `${delayS} s after failure ${attempts + 1}`);
    }
    await db.query(sql`update reconcile_queue set run_at = now()`);
    await settlePass(db, { ...(await claimOne(db, "a")), owner: "a", outcome: done, retryAt: new Date() });
    assert.equal((await claimOne(db, "a")).attempts, 0);
  },
);

eachDatabase("a change during a failed pass leads to a pass within a second, not after the back-off", async (db) => {
  const id = randomUUID();
  await enqueue(db, id);
  await db.query(sql`update reconcile_queue set attempts = 20`);
  const pass = await claimOne(db, "a");
  await enqueue(db, id);
  await failPass(db, { ...pass, owner: "a", because: "it broke", durationMs: 1 });
  assert.ok((await secondsFromFailure(db)) <= 1);
});

eachDatabase("keeps the last ten outcomes, newest first, with time and duration", async (db) => {
  const id = randomUUID();
  for (let i = 0; i < 12; i += 1) {
    await enqueue(db, id);
    await settlePass(db, {
      ...(await claimOne(db, "a")),
      owner: "a",
      outcome: { ...done, because: `${i}` },
      retryAt: null,
    });
  }
  const { rows } = await db.query<{
    outcomes: { because: string; kind: string; duration_ms: number; at: string }[];
  }>(sql`select outcomes from reconcile_queue`);
  const kept = rows[0]?.outcomes ?? [];
  assert.deepEqual(
    kept.map((outcome) => outcome.because),
    ["11", "10", "9", "8", "7", "6", "5", "4", "3", "2"],
  );
  assert.equal(kept[0]?.kind, "converged");
  assert.equal(kept[0]?.duration_ms, 12);
  assert.ok(Math.abs(Date.parse(kept[0]?.at ?? "") - Date.now()) < 600_000);
});

eachDatabase(
  "8 workers that die at random lose none of 400 deployments and never run two passes of one at once",
  async (db) => {
    const keys: string[] = Array.from({ length: 400 }, () => randomUUID());
    const wanted = new Map(keys.map((key) => [key, 1]));
    const seen = new Map<string, number>();
    const running = new Map<string, { isDead: boolean }>();
    const overlaps: string[] = [];
    let deaths = 0;

    await db.query(sql`insert into reconcile_queue (deployment_id, run_at) select unnest(${keys}::uuid[]), now()`);
    const isAllSeen = () => keys.every((key) => (seen.get(key) ?? 0) >= (wanted.get(key) ?? 0));

    async function pass(one: Claim, worker: { owner: string; isDead: boolean }): Promise<void> {
      const other = running.get(one.deploymentId);
      if (other !== undefined && !other.isDead) overlaps.push(one.deploymentId);
      running.set(one.deploymentId, worker);
      const version = wanted.get(one.deploymentId) ?? 0;
      await sleep(Math.random() * 5);
      if (worker.isDead) return;
      running.delete(one.deploymentId);
      const end = { ...one, owner: worker.owner };
      if (Math.random() < 0.05) {
        await failPass(db, { ...end, because: "bad luck", durationMs: 1 });
        await db.query(sql`update reconcile_queue set run_at = now() where deployment_id = ${one.deploymentId}
                   and run_at is not null`);
      } else {
        seen.set(one.deploymentId, version);
        await settlePass(db, { ...end, outcome: done, retryAt: null });
      }
    }

    async function work(slot: number): Promise<void> {
      for (let life = 0; ; life += 1) {
        const worker = { owner: `worker-${slot}-${life}`, isDead: false };
        for (let rounds = 0; !worker.isDead; rounds += 1) {
          const claims = await claim(db, { owner: worker.owner, limit: 5, leaseMs });
          if (claims.length === 0 && isAllSeen()) return;
          // Dies while holding claims: they stay leased until another worker takes them over.
          worker.isDead = life < 3 && rounds > 3 && claims.length > 0 && Math.random() < 0.2;
          await Promise.all(claims.map((one) => pass(one, worker)));
          if (worker.isDead) deaths += 1;
          else if (claims.length === 0) await sleep(5);
        }
        await expireLeases(db, worker.owner);
      }
    }

    async function disturb(): Promise<void> {
      for (let i = 0; i < 160; i += 1) {
        const key = keys[Math.floor(Math.random() * keys.length)] as string;
        wanted.set(key, (wanted.get(key) ?? 0) + 1);
        await enqueue(db, key);
      }
    }

    await Promise.all([disturb(), ...Array.from({ length: 8 }, (_, slot) => work(slot))]);
    assert.deepEqual(overlaps, []);
    assert.ok(deaths > 0);
    const { rows: left } = await db.query(sql`
      select deployment_id from reconcile_queue where run_at is not null or lease_owner is not null`);
    assert.deepEqual(left, []);
  },
);

async function claimOne(db: Db, owner: string): Promise<Claim> {
  const [one] = await claim(db, { owner, limit: 1, leaseMs });
  assert.ok(one !== undefined, "nothing was due");
  return one;
}

/** Expires leases without waiting. */
async function expireLeases(db: Db, owner = ""): Promise<void> {
  await db.query(sql`update reconcile_queue set lease_until = now() - interval '1 second'
             where lease_owner is not null and starts_with(lease_owner, ${owner})`);
}

/** Measured from the recorded failure of the pass, because the query comes some time later. */
async function secondsFromFailure(db: Db): Promise<number> {
  const { rows } = await db.query<{ s: number }>(sql`
    select extract(epoch from run_at - (outcomes->0->>'at')::timestamptz)::float8 as s from reconcile_queue`);
  return rows[0]?.s ?? Number.NaN;
}
