import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { DatabaseServer } from "../../src/provision/database-server.ts";
import { ReconcilerLoop } from "../../src/reconciler/loop/loop.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { clearRetries } from "../../src/store/queue/describe-retries.ts";
import { openSealer } from "../../src/store/secrets/seal.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { makeDeployment, makeWorld } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { passDeps } from "./pass-deps.ts";

eachDatabase(
  "a deployment that is claimed again before its previous pass has ended keeps the lease of the new pass",
  async (db) => {
    const sealer = await openSealer(db, randomBytes(32));
    const passes: PromiseWithResolvers<void>[] = [];
    const server: DatabaseServer = {
      ensure(_credentials, _spec, signal) {
        const pass = Promise.withResolvers<void>();
        signal.addEventListener("abort", () => pass.reject(signal.reason));
        passes.push(pass);
        return pass.promise;
      },
      remove: async () => {},
      environment: () => ({}),
    };
    const databases = {
      shared: { postgres: server, redis: null },
      container: null,
      areContainersWanted: false,
    };
    const settings = { owner: "me", resyncIntervalMs: 3_600_000 };
    const loop = new ReconcilerLoop(passDeps(db, { databases, sealer }), createMetrics().reconciler, settings);
    const { id } = await makeDeployment(db, await makeWorld(db));
    const queued = async () => {
      const { rows } = await db.query<{ generation: number; left: number }>(sql`
      select generation, extract(epoch from lease_until - now())::float8 as left from reconcile_queue
       where deployment_id = ${id}`);
      return rows[0] as { generation: number; left: number };
    };
    const expireIn = (seconds: number) =>
      db.query(sql`update reconcile_queue set lease_until = now() + ${seconds} * interval '1 second'`);
    loop.start();
    try {
      await eventually(
        () => passes.length,
        (count) => count === 1,
        { what: "a pass" },
      );
      await expireIn(-1);
      await eventually(
        () => passes.length,
        (count) => count === 2,
        { what: "a second pass" },
      );
      const { generation } = await queued();
      passes[0]?.reject(new Error("the server is away"));
      await eventually(queued, (row) => row.generation > generation, { what: "the end of the first pass" });
      await expireIn(25);
      await eventually(queued, ({ left }) => left > 26, { what: "the lease is renewed", timeoutMs: 15_000 });
    } finally {
      await loop.stop();
      sealer.close();
    }
  },
  { kinds: ["embedded"] },
);

eachDatabase("a loop that is stopped during a claim leaves no lease behind", async (db) => {
  const { id } = await makeDeployment(db, await makeWorld(db));
  const settings = { owner: "me", resyncIntervalMs: 3_600_000 };
  const loop = new ReconcilerLoop(passDeps(db), createMetrics().reconciler, settings);
  loop.start();
  await loop.stop();
  const { rows } = await db.query<{ lease_owner: string | null; is_due: boolean }>(sql`
    select lease_owner, run_at is not null as is_due from reconcile_queue where deployment_id = ${id}`);
  assert.deepEqual(rows, [{ lease_owner: null, is_due: true }]);
});

eachDatabase(
  "a deployment that one server has no slot for is claimed by another one, whenever that one started",
  async (db) => {
    const world = await makeWorld(db);
    const { id, revisionId } = await makeDeployment(db, world);
    await db.query(sql`update deployments set status = 'READY' where id = ${id}`);
    await db.query(sql`update revisions set status = 'AWAITING_BUILD' where id = ${revisionId}`);
    const asked = new Set<string>();
    const loopOf = (owner: string) => {
      const builds = {
        isRunning: () => false,
        async findWait() {
          asked.add(owner);
          return { retryInMs: 500, because: "all build slots are taken" };
        },
      };
      const settings = { owner, resyncIntervalMs: 3_600_000 };
      return new ReconcilerLoop(passDeps(db, { builds: builds as never }), createMetrics().reconciler, settings);
    };
    const [full, free] = [loopOf("full"), loopOf("free")];
    full.start();
    try {
      // With fixed intervals its polls would always come just before the deployment is due again.
      await sleep(150);
      free.start();
      await eventually(
        () => asked,
        (owners) => owners.has("free"),
        { what: "a pass on the other server", timeoutMs: 30_000 },
      );
    } finally {
      await Promise.all([full.stop(), free.stop()]);
    }
  },
);

eachDatabase("the message of a revision that cannot continue shows what is retried and since when", async (db) => {
  const sealer = await openSealer(db, randomBytes(32));
  let [attempts, isAway] = [0, true];
  const server: DatabaseServer = {
    async ensure() {
      attempts += 1;
      if (isAway) throw new Error(`connect ECONNREFUSED, attempt ${attempts}`);
    },
    remove: async () => {},
    environment: () => ({}),
  };
  const databases = { shared: { postgres: server, redis: null }, container: null, areContainersWanted: false };
  const settings = { owner: "me", resyncIntervalMs: 3_600_000 };
  const loop = new ReconcilerLoop(passDeps(db, { databases, sealer }), createMetrics().reconciler, settings);
  const { id } = await makeDeployment(db, await makeWorld(db));
  const message = async () => {
    const { rows } = await db.query<{ message: string | null }>(sql`
      select status_message as message from revisions where deployment_id = ${id}`);
    return rows[0]?.message ?? "";
  };
  const says = (text: RegExp) => eventually(message, (found) => text.test(found), { what: String(text) });
  /** Each pass ends in a failure or in a wait, and is repeated at once. */
  const retry = () => db.query(sql`update reconcile_queue set run_at = now() where deployment_id = ${id}`);
  const beganAtMs = Date.now();
  loop.start();
  try {
    const first = await says(/^Retried since .+ UTC: .*the database is not provisioned yet: connect ECONNREFUSED/);
    const since = /^Retried since (.+ UTC): /.exec(first)?.[1] ?? "";
    const afterMs = Date.parse(since) - beganAtMs;
    assert.ok(afterMs > -2_000 && afterMs < 30_000, `the time of the first attempt: ${since}`);
    const seen = attempts;
    await retry();
    await says(new RegExp(`^Retried since ${since}: .*attempt ${seen + 1}$`));

    await db.query(sql`alter table observations rename to observations_gone`);
    for (let failures = 0; !/observations/.test(await message()); failures += 1) {
      assert.ok(failures < 200, await message());
      await retry();
      await sleep(100);
    }
    assert.match(await message(), new RegExp(`^Retried since ${since}: .*observations`));
    await db.query(sql`alter table observations_gone rename to observations`);
    isAway = false;
    await retry();
    await says(/^(?!.*(ECONNREFUSED|observations))/);
  } finally {
    await loop.stop();
    sealer.close();
  }
  await clearRetries(db, id);
  // The next passes may have begun the build, which fails without a repository.
  assert.doesNotMatch(await message(), /Retried since/);
});

eachDatabase("the message about a retry disappears with the first pass that succeeds", async (db) => {
  const sealer = await openSealer(db, randomBytes(32));
  let isAway = true;
  const server: DatabaseServer = {
    async ensure() {
      if (isAway) throw new Error("connect ECONNREFUSED");
    },
    remove: async () => {},
    environment: () => ({}),
  };
  const databases = { shared: { postgres: server, redis: null }, container: null, areContainersWanted: false };
  const builds = {
    isRunning: () => false,
    findWait: async () => ({ retryInMs: 3_600_000, because: "all build slots are taken" }),
  };
  const { id, revisionId } = await makeDeployment(db, await makeWorld(db));
  await db.query(sql`update revisions set status = 'AWAITING_BUILD' where id = ${revisionId}`);
  const settings = { owner: "me", resyncIntervalMs: 3_600_000 };
  const deps = passDeps(db, { databases, sealer, builds: builds as never });
  const loop = new ReconcilerLoop(deps, createMetrics().reconciler, settings);
  const message = async () => {
    const { rows } = await db.query<{ message: string | null }>(sql`
      select status_message as message from revisions where id = ${revisionId} and status = 'AWAITING_BUILD'`);
    return rows[0]?.message;
  };
  loop.start();
  try {
    await eventually(message, (found) => /^Retried since .+ECONNREFUSED/.test(found ?? ""), { what: "the problem" });
    isAway = false;
    await db.query(sql`update reconcile_queue set run_at = now() where deployment_id = ${id}`);
    await eventually(message, (found) => found === null, { what: "no message after the database came back" });
  } finally {
    await loop.stop();
    sealer.close();
  }
});
