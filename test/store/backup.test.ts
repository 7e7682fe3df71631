import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { secretsBytesMax } from "../../src/domain/limits.ts";
import { type Db, openDatabase } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { findEventBounds } from "../../src/store/events/events.ts";
import { activateRestored, loadBackup, writeBackup } from "../../src/store/maintenance/backup.ts";
import { openSealer } from "../../src/store/secrets/seal.ts";
import { createDeliveries } from "../../src/store/webhooks/webhook-deliveries.ts";
import { createWebhook } from "../../src/store/webhooks/webhooks.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld, type World } from "./fixtures.ts";

eachDatabase("a backup restores texts with any character unchanged", async (db) => {
  // Some readers treat these as line ends, but JSON strings may contain them.
  const message = "a\u2028b\u2029c\u0085d\r\n\u000b\f\u{1f600} \\u2028";
  const { revisionId } = await makeDeployment(db, await makeWorld(db));
  const write = (text: string) => db.query(sql`update revisions set status_message = ${text} where id = ${revisionId}`);
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-backup-"));
  try {
    await write(message);
    const { signal } = new AbortController();
    const { manifest } = await writeBackup(db, directory, { version: "test", signal });
    await write("something else");
    await loadBackup(db, directory, manifest);
  } finally {
    await rm(directory, { recursive: true });
  }
  const { rows } = await db.query<{ status_message: string }>(sql`select status_message from revisions`);
  assert.deepEqual(rows, [{ status_message: message }]);
});

eachDatabase(
  "a backup may spend longer on a table than other statements, because it skips most log lines",
  async (db, { databaseUrl }) => {
    await makeDeployment(db, await makeWorld(db));
    const hurried = await openDatabase({
      databaseUrl: `${databaseUrl}?statement_timeout=500`,
      dataDir: tmpdir(),
      logger: createLogger("silent"),
    });
    const directory = await mkdtemp(path.join(tmpdir(), "pierhead-backup-"));
    try {
      // As slow as skipping many lines.
      const reading = Promise.withResolvers<void>();
      const slow = db.transaction(async (trx) => {
        await trx.query(sql`lock table log_entries in access exclusive mode`);
        reading.resolve();
        await trx.query(sql`select pg_sleep(2)`);
      });
      await reading.promise;
      const { signal } = new AbortController();
      const { manifest } = await writeBackup(hurried, directory, { version: "test", signal });
      assert.equal(manifest.rows["deployments"], 1);
      await slow;
    } finally {
      await rm(directory, { recursive: true });
      await hurried.close();
    }
  },
  { kinds: ["postgres"] },
);

eachDatabase("a restore redeploys what serves, and restarts unfinished revisions in their order", async (db) => {
  const world = await makeWorld(db);
  const [ready, unused, unknown] = [
    await serving(db, world, "READY", []),
    await serving(db, world, "UNUSED", ["BUILD_FAILED"]),
    await serving(db, world, "UNKNOWN", []),
  ];
  const queued = await serving(db, world, "READY", ["DEPLOYING", "QUEUED"]);
  const stopped = await serving(db, world, "READY", ["DEPLOYING", "INTERRUPTED"]);
  await db.query(sql`insert into builds (revision_id, deployment_id, status, owner, lease_until)
    select id, deployment_id, 'succeeded', 'gone', now() from revisions where status = 'DEPLOYING'`);
  const madeAt = new Date().toISOString();

  assert.equal(await activateRestored(db, { format: 1, version: "test", madeAt, migrations: [], rows: {} }), 3);
  const again = ["CREATING, redeployed", "DEPLOYED"];
  assert.deepEqual(await newestFirst(db, ready), again);
  assert.deepEqual(await newestFirst(db, unused), ["CREATING, redeployed", "BUILD_FAILED", "DEPLOYED"]);
  assert.deepEqual(await newestFirst(db, unknown), again);
  // A newer one would supersede a revision that a user requested.
  assert.deepEqual(await newestFirst(db, queued), ["CREATING", "CREATING", "DEPLOYED"]);
  assert.deepEqual(await newestFirst(db, stopped), ["INTERRUPTED", "CREATING", "DEPLOYED"]);
  const { rows: builds } = await db.query(sql`select 1 from builds`);
  assert.equal(builds.length, 0);
});

eachDatabase(
  "restores any number of secrets of the maximum size",
  async (db) => {
    const { id } = await makeDeployment(db, await makeWorld(db));
    const { activeKeyId } = await openSealer(db, randomBytes(32));
    // Together more than PostgreSQL takes in one JSON array.
    await db.query(sql`
      insert into secret_sets (id, tenant_id, deployment_id, data_key_id, sealed)
      select gen_random_uuid(), tenant_id, id, ${activeKeyId}, decode(repeat('ab', ${secretsBytesMax}), 'hex')
        from deployments, generate_series(1, 130) where id = ${id}`);
    const directory = await mkdtemp(path.join(tmpdir(), "pierhead-backup-"));
    try {
      const { signal } = new AbortController();
      const { manifest } = await writeBackup(db, directory, { version: "test", signal });
      await loadBackup(db, directory, manifest);
    } finally {
      await rm(directory, { recursive: true });
    }
    const { rows } = await db.query<{ count: number }>(sql`select count(*) as count from secret_sets`);
    assert.equal(rows[0]?.count, 130);
  },
  { kinds: ["postgres"] },
);

eachDatabase(
  "after a restore webhooks receive the first event at once, although event numbers were skipped",
  async (db) => {
    const world = await makeWorld(db);
    await serving(db, world, "READY", []);
    const { rows } = await db.query<{ organizationId: string }>(sql`
    select organization_id as "organizationId" from workspaces`);
    const owner = { ...rows[0], tenantId: world.tenantId, actor: "test" } as const;
    const settings = {
      url: "https://a.example",
      format: "standard" as const,
      description: null,
      types: null,
      deployment_ids: null,
      enabled: true,
    };
    await createWebhook(db, await openSealer(db, randomBytes(32)), { organizationId: "", ...owner }, settings);
    const directory = await mkdtemp(path.join(tmpdir(), "pierhead-backup-"));
    try {
      const { signal } = new AbortController();
      const { manifest } = await writeBackup(db, directory, { version: "test", signal });
      await loadBackup(db, directory, manifest);
      await activateRestored(db, manifest);
    } finally {
      await rm(directory, { recursive: true });
    }
    const last = (await findEventBounds(db))?.last ?? 0;
    assert.ok(last > 1_000_000_000);
    let rounds = 1;
    while (await createDeliveries(db, last)) {
      rounds += 1;
      assert.ok(rounds < 10, "the deliveries are created number by number");
    }
    const { rows: made } = await db.query<{ type: string }>(sql`select distinct type from webhook_deliveries`);
    assert.deepEqual(made, [{ type: "revision.created" }]);
  },
);

/** A deployment with an active revision, and newer ones in these statuses. */
async function serving(db: Db, world: World, status: string, newer: string[]): Promise<string> {
  const { id, revisionId } = await makeDeployment(db, world);
  await db.query(sql`update revisions set status = 'DEPLOYED', deadline_at = null where id = ${revisionId}`);
  await db.query(sql`update deployments set status = ${status}, active_revision_id = ${revisionId} where id = ${id}`);
  for (const one of newer) {
    // As real moves leave it: queued and finished revisions have no deadline.
    const deadline = one === "DEPLOYING" ? new Date() : null;
    await db.query(sql`
      with made as (
        insert into revisions (id, tenant_id, deployment_id, status, deadline_at, source, source_config,
          source_revision_config, triggered_by)
        select gen_random_uuid(), tenant_id, deployment_id, ${one}, ${deadline}, source, source_config,
               source_revision_config, triggered_by from revisions where id = ${revisionId}
        returning id
      )
      update deployments set latest_revision_id = made.id from made where deployments.id = ${id}`);
  }
  await db.query(sql`delete from reconcile_queue`);
  return id;
}

async function newestFirst(db: Db, deploymentId: string): Promise<string[]> {
  const { rows } = await db.query<{ said: string }>(sql`
    select status || case when redeploy_of is null then '' else ', redeployed' end as said from revisions
     where deployment_id = ${deploymentId} order by seq desc`);
  return rows.map(({ said }) => said);
}
