import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { mock } from "node:test";
import pg from "pg";
import { artifactManifestName } from "../../src/builds/cache/artifact.ts";
import { dropArtifact } from "../../src/builds/image/saved-image.ts";
import { Housekeeping, type HousekeepingDeps } from "../../src/reconciler/loop/housekeeping.ts";
import { readState } from "../../src/reconciler/plan/read-state.ts";
import type { DeploymentState } from "../../src/reconciler/plan/state.ts";
import { deleteDeployment } from "../../src/reconciler/steps/delete-deployment.ts";
import { DirectoryLogArchive } from "../../src/server/log-archives.ts";
import { saveArtifact } from "../../src/store/builds/artifacts.ts";
import { findFinishedUpload, startUpload } from "../../src/store/builds/uploads.ts";
import { storeReports } from "../../src/store/data-plane/observations.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { appendLogEntries } from "../../src/store/logs/log-entries.ts";
import {
  dropSupersededArtifacts,
  trimAuditLog,
  trimLogEntries,
  trimOlder,
} from "../../src/store/maintenance/retention.ts";
import { acquireLease, releaseLease } from "../../src/store/queue/leases.ts";
import { openSealer } from "../../src/store/secrets/seal.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { makeDeployment, makeWorld, type World } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { passDeps } from "./pass-deps.ts";

const never = new AbortController().signal;

eachDatabase("trims lines of agents by age and number, and keeps build logs", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  const line = (kind: "build" | "deploy", ageDays: number, message: string) => ({
    deployment_id: id,
    revision_id: revisionId,
    kind,
    replica_id: null,
    stream: "stdout",
    level: "INFO" as const,
    logged_at: new Date(Date.now() - ageDays * 86_400_000),
    message,
    line_key: null,
  });
  await appendLogEntries(db, [line("build", 30, "built"), line("deploy", 30, "old")]);
  await appendLogEntries(
    db,
    Array.from({ length: 5 }, (_, index) => line("deploy", 1, `new ${index}`)),
  );
  assert.equal(await trimLogEntries(db, { days: 14, linesMax: 3 }, never), 3);
  const { rows } = await db.query<{ message: string }>(sql`select message from log_entries order by id`);
  assert.deepEqual(
    rows.map(({ message }) => message),
    ["built", "new 2", "new 3", "new 4"],
  );
});

eachDatabase(
  "measures the age of data by the database's clock, not by this machine's",
  async (db) => {
    const world = await makeWorld(db);
    await makeDeployment(db, world);
    const ahead = mock.method(Date, "now", () => performance.timeOrigin + performance.now() + 400 * 86_400_000);
    try {
      assert.equal(await trimOlder(db, "events", { days: 30 }, never), 0);
      assert.equal(await trimAuditLog(db, { days: 365 }, never), 0);
    } finally {
      ahead.mock.restore();
    }
  },
  // The embedded database's clock is this machine's.
  { kinds: ["postgres"] },
);

eachDatabase(
  "keeps artifacts of the newest revisions, of the active one and of those in progress, and drops others",
  async (db) => {
    const world = await makeWorld(db);
    const { id } = await makeDeployment(db, world);
    const [moving, active, superseded, kept, newest] = await Promise.all(
      ["moving", "active", "superseded", "kept", "newest"].map((key) => artifact(db, world, key, 2)),
    );
    const revisions = [
      await revision(db, { world, deploymentId: id, artifactId: moving, status: "BUILDING" }),
      await revision(db, { world, deploymentId: id, artifactId: active, status: "DEPLOYED" }),
      await revision(db, { world, deploymentId: id, artifactId: superseded, status: "DEPLOYED" }),
      await revision(db, { world, deploymentId: id, artifactId: kept, status: "DEPLOY_FAILED" }),
      await revision(db, { world, deploymentId: id, artifactId: newest, status: "DEPLOYED" }),
    ];
    await db.query(sql`update deployments set active_revision_id = ${revisions[1]} where id = ${id}`);
    await artifact(db, world, "used a moment ago", 0);
    assert.equal(await dropSupersededArtifacts(db, 2), 1);
    const { rows } = await db.query<{ key: string }>(sql`select key from artifacts order by key`);
    assert.deepEqual(
      rows.map(({ key }) => key),
      ["active", "kept", "moving", "newest", "used a moment ago"],
    );
  },
);

eachDatabase("removes unused uploads and artifact directories that no row names, and leaves the rest", async (db) => {
  const world = await makeWorld(db);
  const { id } = await makeDeployment(db, world);
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-housekeeping-"));
  try {
    await artifact(db, world, "known", 0);
    await Promise.all([
      artifactDirectory(directory, "known", 2),
      artifactDirectory(directory, "orphan", 2),
      artifactDirectory(directory, "fresh", 0),
    ]);
    const owner = { id, tenantId: world.tenantId };
    const left = await startUpload(db, owner, new Date());
    const used = await startUpload(db, owner, new Date());
    const young = await startUpload(db, owner, new Date());
    await db.query(sql`update uploads set created_at = now() - interval '2 days' where id <> ${young.id}`);
    await db.query(sql`update revisions set source_revision_config = source_revision_config || jsonb_build_object('source_tarball_path', ${used.object_path}::text)
               where deployment_id = ${id}`);
    const gone: string[] = [];
    const housekeeping = await housekeepingFor(db, directory, gone);
    await housekeeping.tidy();
    assert.deepEqual((await readdir(directory)).sort(), ["fresh", "known"]);
    assert.deepEqual(gone, [left.object_path]);
  } finally {
    await rm(directory, { recursive: true });
  }
});

eachDatabase(
  "removes what a dead server left of a deployment at the next start, and keeps what is being built",
  async (db) => {
    const world = await makeWorld(db);
    const { id } = await makeDeployment(db, world);
    const { revisionId } = await makeDeployment(db, world);
    await artifact(db, world, "known", 0);
    await db.query(sql`update revisions set artifact_key = 'on-its-way' where deployment_id = ${id}`);
    const directory = await mkdtemp(path.join(tmpdir(), "pierhead-artifacts-"));
    try {
      for (const key of ["left", "known", "on-its-way", revisionId]) {
        await mkdir(path.join(directory, key));
        await writeFile(path.join(directory, key, ".pierhead-artifact.json"), "{}");
      }
      await (await housekeepingFor(db, directory, [])).sweepLeft();
      assert.deepEqual((await readdir(directory)).sort(), ["known", "on-its-way", revisionId].sort());
    } finally {
      await rm(directory, { recursive: true });
    }
  },
);

eachDatabase("tidies the database on one server at a time", async (db) => {
  const world = await makeWorld(db);
  const { id } = await makeDeployment(db, world);
  const left = await startUpload(db, { id, tenantId: world.tenantId }, new Date());
  await db.query(sql`update uploads set created_at = now() - interval '2 days'`);
  await acquireLease(db, { name: "housekeeping", owner: "another server", leaseMs: 60_000 });
  const gone: string[] = [];
  const housekeeping = await housekeepingFor(db, path.join(tmpdir(), "pierhead-no-such-directory"), gone);
  await housekeeping.tidy();
  assert.deepEqual(gone, []);
  await db.query(sql`update leases set lease_until = now() - interval '1 second'`);
  await housekeeping.tidy();
  assert.deepEqual(gone, [left.object_path]);
});

eachDatabase("trims sign-ins, token events and the audit log at their age, and not before", async (db) => {
  const { tenantId } = await makeWorld(db);
  const { rows } = await db.query<{ organization_id: string }>(sql`select organization_id from workspaces`);
  const provider = randomUUID();
  await db.query(sql`insert into oauth_providers (id, organization_id, provider_id, name, client_id, auth_url, token_url, uses_pkce,
              token_endpoint_auth_method)
            values (${provider}, ${rows[0]?.organization_id}, 'one', 'One', 'c', 'https://a', 'https://b', true, 'none')`);
  const sealer = await openSealer(db, masterKey);
  sealer.close();
  const { activeKeyId } = sealer;
  for (const [hours, days] of [
    [23, 89],
    [25, 91],
  ]) {
    await db.query(sql`insert into oauth_requests (id, tenant_id, provider_row_id, state_digest, data_key_id, sealed, token_url,
                client_id, scopes, redirect_uri, is_own_callback, is_default, actor, expires_at)
              values (${randomUUID()}, ${tenantId}, ${provider}, ${Buffer.from(`${hours}`)}, ${activeKeyId}, '', 'https://b',
                'c', '[]', 'https://c', true, true, 'test', now() - ${hours} * interval '1 hour')`);
    await db.query(sql`insert into oauth_token_events (id, tenant_id, provider_id, event_type, source, created_at)
              values (${randomUUID()}, ${tenantId}, 'one', 'connected', 'callback', now() - ${days} * interval '1 day')`);
    await db.query(sql`insert into audit_log (organization_id, actor, action, created_at)
              values (${randomUUID()}, 'test', ${`of ${days}`}, now() - ${days} * interval '1 day')`);
  }
  const count = async (table: string, where = sql`true`) => {
    const found = await db.query<{
      count: number;
    }>(sql`select count(*) as count from ${sql.identifier(table)} where ${where}`);
    return found.rows[0]?.count;
  };
  const old = sql`actor = 'test' and action like 'of %'`;
  const directory = path.join(tmpdir(), "pierhead-no-such-directory");
  await (await housekeepingFor(db, directory, [])).tidy();
  assert.deepEqual([await count("oauth_requests"), await count("oauth_token_events")], [1, 1]);
  assert.equal(await count("audit_log", old), 2, "the audit log is kept without limit by default");
  await (await housekeepingFor(db, directory, [], { auditRetentionDays: 90 })).tidy();
  assert.equal(await count("audit_log", old), 1);
});

eachDatabase("moves old lines of agents into the archive, and deletes what a server archived long ago", async (db) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-housekeeping-"));
  try {
    const old = path.join(dataDir, "log-archive", "2001-02-03");
    await mkdir(old, { recursive: true });
    const { id, revisionId } = await makeDeployment(db, await makeWorld(db));
    await db.query(sql`
      insert into log_entries (tenant_id, deployment_id, revision_id, kind, stream, level, logged_at, message)
      select tenant_id, id, ${revisionId}, 'deploy', 'stdout', 20, now() - interval '40 days', 'old' from deployments where id = ${id}`);
    const archived = async () =>
      (await readdir(path.join(dataDir, "log-archive"), { recursive: true })).filter((name) => name.endsWith(".gz"));
    const linesLeft = async () => (await db.query(sql`select message from log_entries`)).rows.length;
    const logArchive = new DirectoryLogArchive(dataDir);
    const housekeeping = await housekeepingFor(db, dataDir, [], { logArchiveDays: 365 }, { logArchive });

    await acquireLease(db, { name: "housekeeping", owner: "another server", leaseMs: 60_000 });
    await housekeeping.tidy();
    assert.deepEqual(await readdir(path.dirname(old)), [], "each server deletes its own files");
    assert.equal(await linesLeft(), 1, "one server at a time moves lines");

    await releaseLease(db, { name: "housekeeping", owner: "another server" });
    await housekeeping.tidy();
    assert.equal(await linesLeft(), 0);
    const [file = "", ...others] = await archived();
    assert.ok(file.includes(id));
    assert.deepEqual(others, []);
  } finally {
    await rm(dataDir, { recursive: true });
  }
});

eachDatabase("deletes a backlog in batches, so that no other statement waits for one large delete", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  const [webhook, sealer] = [randomUUID(), await openSealer(db, masterKey)];
  sealer.close();
  await db.query(sql`insert into webhooks (id, tenant_id, origin, data_key_id, sealed, after_event)
            values (${webhook}, ${world.tenantId}, 'https://a', ${sealer.activeKeyId}, '', 0)`);
  const old = sql`now() - interval '40 days'`;
  const many = sql`generate_series(1, 11000) n`;
  await db.query(sql`insert into idempotency_keys (scope_id, key, data_key_id, sealed, created_at)
            select ${id}, n::text, ${id}, '', ${old} from ${many}`);
  await db.query(sql`insert into host_deliveries (digest, received_at)
            select decode(lpad(n::text, 8, '0'), 'hex'), ${old} from ${many}`);
  await db.query(sql`insert into webhook_deliveries (id, webhook_id, tenant_id, type, payload, status, created_at)
            select gen_random_uuid(), ${webhook}, ${world.tenantId}, 'webhook.test', '{}', 'failed', ${old} from ${many}`);
  await db.query(sql`insert into log_entries (tenant_id, deployment_id, revision_id, kind, stream, level, logged_at, message)
            select ${world.tenantId}, ${id}, ${revisionId}, 'build', 'stdout', 20, now(), 'one' from ${many}`);
  const tables = ["idempotency_keys", "host_deliveries", "webhook_deliveries", "log_entries"];
  await using _guard = await refuseMany(db, tables);
  await (await housekeepingFor(db, path.join(tmpdir(), "pierhead-no-such-directory"), [])).tidy();
  await db.query(sql`update deployments set status = 'AWAITING_FINAL_DELETE' where id = ${id}`);
  const { state } = (await readState(passDeps(db).store, id)) as { state: DeploymentState };
  await deleteDeployment(passDeps(db), state, { kind: "deleteRow" }, never);
  for (const table of tables) {
    const { rows } = await db.query<{ count: number }>(sql`select count(*) as count from ${sql.identifier(table)}`);
    assert.deepEqual([table, rows[0]?.count], [table, 0]);
  }
});

/** Makes the database refuse statements that delete more rows than one batch has. */
async function refuseMany(db: Db, tables: string[]): Promise<AsyncDisposable> {
  await db.query(sql`create function refuse_many() returns trigger language plpgsql as $$ begin
              if (select count(*) from gone) > 5000 then raise exception 'too many at once'; end if;
              return null;
            end $$`);
  for (const table of tables) {
    await db.query(sql`create trigger refuse_many after delete on ${sql.identifier(table)} referencing old table as gone
              for each statement execute function refuse_many()`);
  }
  return {
    async [Symbol.asyncDispose]() {
      await db.query(sql`drop function refuse_many cascade`);
    },
  };
}

eachDatabase("retries an upload whose file could not be removed, and still removes the others", async (db) => {
  const world = await makeWorld(db);
  const { id } = await makeDeployment(db, world);
  const owner = { id, tenantId: world.tenantId };
  const left = [await startUpload(db, owner, new Date()), await startUpload(db, owner, new Date())];
  await db.query(sql`update uploads set created_at = now() - interval '2 days', finished_at = now()`);
  const [stuck, other] = left.map(({ object_path }) => object_path) as [string, string];
  let isStuck = true;
  const gone: string[] = [];
  const removeUpload = async (objectPath: string) => {
    if (isStuck && objectPath === stuck) throw new Error("the disk is read only");
    gone.push(objectPath);
  };
  const directory = path.join(tmpdir(), "pierhead-no-such-directory");
  const housekeeping = await housekeepingFor(db, directory, [], {}, { removeUpload });
  await housekeeping.tidy();
  assert.deepEqual(gone, [other]);
  assert.equal(
    await findFinishedUpload(db, id, stuck),
    undefined,
    "no revision can be created from an upload that is being removed",
  );
  isStuck = false;
  await housekeeping.tidy();
  assert.deepEqual(gone, [other, stuck]);
  assert.deepEqual((await db.query(sql`select 1 from uploads`)).rows, []);
});

eachDatabase("keeps an artifact that a build starts to use while others are removed", async (db) => {
  const world = await makeWorld(db);
  const { id } = await makeDeployment(db, world);
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-artifacts-"));
  try {
    for (const key of ["one", "other"]) await artifactDirectory(directory, key, 2);
    let taken = "";
    const removeArtifact = async (key: string) => {
      if (taken === "") {
        taken = key === "one" ? "other" : "one";
        await db.query(sql`update revisions set artifact_key = ${taken} where deployment_id = ${id}`);
      }
      return dropArtifact(path.join(directory, key), { kind: "directory" });
    };
    await (await housekeepingFor(db, directory, [], {}, { removeArtifact })).tidy();
    assert.deepEqual(await readdir(directory), [taken]);
  } finally {
    await rm(directory, { recursive: true });
  }
});

eachDatabase(
  "removes a report that a listener sent while its deployment was being deleted",
  async (db, { databaseUrl }) => {
    const world = await makeWorld(db);
    const { id } = await makeDeployment(db, world);
    const session = { listenerId: world.listenerId, epoch: 1 };
    const report = (seq: number) => storeReports(db, session, [{ deployment_id: id, seq, generation: 1 } as never]);
    await db.query(sql`insert into assignments (deployment_id, tenant_id, listener_id, rv, generation, op, spec)
              values (${id}, ${world.tenantId}, ${world.listenerId}, 1, 1, 'delete', '{}')`);
    await report(1);
    const other = new pg.Client({ connectionString: databaseUrl });
    await other.connect();
    await other.query("begin");
    for (const table of ["observations", "assignments"]) {
      await other.query(`delete from ${table} where deployment_id = $1`, [id]);
    }
    await other.query("delete from deployments where id = $1", [id]);
    const late = report(2);
    await eventually(
      async () => (await db.query(sql`select 1 from pg_locks where not granted`)).rows.length,
      (waiting) => waiting > 0,
    );
    await other.query("commit");
    await other.end();
    assert.equal(await late, 1, "the report is stored, because it did not see the delete");
    await (await housekeepingFor(db, path.join(tmpdir(), "pierhead-no-such-directory"), [])).tidy();
    assert.deepEqual((await db.query(sql`select * from observations`)).rows, []);
  },
  { kinds: ["postgres"] },
);

const masterKey = randomBytes(32);

async function housekeepingFor(
  db: Db,
  artifactsDir: string,
  gone: string[],
  settings = {},
  replaced: Partial<HousekeepingDeps> = {},
): Promise<Housekeeping> {
  const sealer = await openSealer(db, masterKey);
  sealer.close();
  return new Housekeeping({
    db,
    sealer,
    logger: createLogger("silent"),
    settings: {
      owner: "this server",
      artifactsDir,
      logRetentionDays: 14,
      logArchiveDays: 0,
      eventRetentionDays: 90,
      auditRetentionDays: 0,
      dataKeyDays: 90,
      unusedAfterDays: undefined,
      ...settings,
    },
    logArchive: null,
    removePushedImages: async () => 0,
    removeDoomedUploads: async () => 0,
    removeUpload: async (objectPath) => {
      gone.push(objectPath);
    },
    removeArtifact: (key) => dropArtifact(path.join(artifactsDir, key), { kind: "directory" }),
    ...replaced,
  });
}

async function artifact(db: Db, world: World, key: string, ageHours: number): Promise<string> {
  const manifest = { kind: "image" as const, image_uri: `registry.invalid/${key}` };
  const id = await saveArtifact(db, world.tenantId, key, manifest as never);
  await db.query(sql`update artifacts set last_used_at = now() - ${ageHours} * interval '1 hour' where id = ${id}`);
  return id;
}

async function revision(
  db: Db,
  row: { world: World; deploymentId: string; artifactId: string | undefined; status: string },
): Promise<string> {
  const id = randomUUID();
  await db.query(sql`
    insert into revisions (id, tenant_id, deployment_id, status, source, source_config, source_revision_config, artifact_id)
    values (${id}, ${row.world.tenantId}, ${row.deploymentId}, ${row.status}, 'github', '{}', '{}', ${row.artifactId})`);
  return id;
}

async function artifactDirectory(parent: string, key: string, ageHours: number): Promise<void> {
  await mkdir(path.join(parent, key));
  const manifest = path.join(parent, key, artifactManifestName);
  await writeFile(manifest, "{}");
  const builtAt = new Date(Date.now() - ageHours * 3_600_000);
  await utimes(manifest, builtAt, builtAt);
}
