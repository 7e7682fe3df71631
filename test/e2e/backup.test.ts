import assert from "node:assert/strict";
import fs, { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, truncate, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync, gzipSync } from "node:zlib";
import pg from "pg";
import { createClient } from "../../src/client/client.ts";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import { readConfig } from "../../src/server/config.ts";
import { restoreBackup } from "../../src/server/restore.ts";
import { startServer } from "../../src/server/start.ts";
import { migrate } from "../../src/store/engine/migrate.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { runCli } from "../cli/run-cli.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { openTestDatabase } from "../support/database.ts";
import { emptyTemplateDirectory } from "../support/database-template.ts";
import { eventually } from "../support/eventually.ts";
import { postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";
import { sharedCacheDir, startTestServer, type TestServer } from "../support/server.ts";

const canary = "canary-4f1c-value-of-a-secret";

/** Creates a deployment that is built from git, with a secret and two revisions, and a second one without a build. */
async function fill({ client }: TestServer, repoUrl: string): Promise<{ built: Deployment; image: Deployment }> {
  const built = await client.createDeployment({
    body: {
      name: "built",
      source: "github",
      source_config: { repo_url: repoUrl, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      secrets: [{ name: "CANARY", value: canary }],
    },
  });
  await settled(client, built);
  const changed = await client.patchDeployment({
    deployment_id: built.id,
    body: { secrets: [{ name: "CANARY", value: `${canary}-2` }] },
  });
  await settled(client, changed);
  const image = await client.createDeployment({
    body: {
      name: "image",
      source: "internal_source",
      source_config: { deployment_type: "dev" },
      source_revision_config: {},
    },
  });
  return { built: changed, image };
}

async function settled(client: TestServer["client"], { id, latest_revision_id }: Deployment): Promise<void> {
  const revision = await client.waitForRevision({ deployment_id: id, revision_id: latest_revision_id as string });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
}

/** A directory on another file system than the temporary directory, or null. Files cannot be hard-linked between the two. */
const otherDisk = await stat("/dev/shm").then(
  async ({ dev }) => (dev === (await stat(tmpdir())).dev ? null : "/dev/shm"),
  () => null,
);

const signal = new AbortController().signal;
const logger = createLogger("silent");

async function configOf(dataDir: string, databaseUrl: string | undefined) {
  return readConfig({
    PORT: "0",
    PIERHEAD_DATA_DIR: dataDir,
    PIERHEAD_CACHE_DIR: sharedCacheDir,
    PIERHEAD_DATABASE_TEMPLATE_DIR: await emptyTemplateDirectory(),
    ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
  });
}

/** Makes a backup with the CLI. Returns its path and the path of the server's master key. */
async function backUp(pierhead: TestServer, directory: string): Promise<{ file: string; masterKey: string }> {
  const file = path.join(directory, "backup.tar.gz");
  const env = { PIERHEAD_URL: pierhead.url, PIERHEAD_API_KEY: pierhead.apiKey };
  const ran = await runCli(["backup", file, "--json"], { env });
  assert.equal(ran.code, 0, ran.stderr);
  const { bytes } = JSON.parse(ran.stdout) as { bytes: number };
  const { size, mode } = await stat(file);
  assert.deepEqual({ bytes, mode: mode & 0o777 }, { bytes: size, mode: 0o600 });
  return { file, masterKey: path.join(pierhead.dataDir, "master.key") };
}

/** Returns the entries of a data directory that the table in docs/guides/operations.md does not list. */
async function undocumented(dataDir: string): Promise<string[]> {
  const page = await readFile(new URL("../../docs/guides/operations.md", import.meta.url), "utf8");
  const table = page.split("## The data directory")[1]?.split("\n## ")[0] ?? "";
  const names = await readdir(dataDir);
  return names.filter((name) => !table.includes(`\`${name}\``) && !table.includes(`\`${name}/\``));
}

for (const kind of ["embedded", "postgres"] as const) {
  test(`restores the backup of a running server on an empty machine, and its deployments run again (${kind})`, async (context) => {
    const made = kind === "postgres" ? await openTestDatabase("postgres") : undefined;
    if (kind === "postgres" && made === undefined) return context.skip("PostgreSQL is not installed");
    if (made !== undefined) await made.db.query(sql`drop schema public cascade; create schema public`);
    await using repository = await createAgentRepository();
    const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-restored-"));
    try {
      const pierhead = await startTestServer();
      const { built, image, apiKey, file } = await (async () => {
        await using _ = pierhead;
        const filled = await fill(pierhead, repository.url);
        const { file, masterKey } = await backUp(pierhead, dataDir);
        await cp(masterKey, path.join(dataDir, "master.key"));
        const { items: noted } = await pierhead.client.listAuditLog({ action: "installation.backup" });
        assert.deepEqual([noted.length, noted[0]?.actor.startsWith("key:")], [1, true]);
        // Operators copy the state of agents by hand, see docs/guides/operations.md.
        await writeFile(path.join(pierhead.dataDir, "state", filled.built.id, "kept.txt"), "kept");
        await cp(path.join(pierhead.dataDir, "state"), path.join(dataDir, "state"), { recursive: true });
        assert.deepEqual(await undocumented(pierhead.dataDir), []);
        const left = async () => readdir(path.join(pierhead.dataDir, "backup-drafts"));
        await eventually(left, ({ length }) => length === 0, { what: "an empty drafts directory" });
        await mkdir(path.join(pierhead.dataDir, "backup-drafts", "draft-of-a-dead-server"));
        await pierhead.restart();
        await assert.rejects(left(), { code: "ENOENT" });
        return { ...filled, apiKey: pierhead.apiKey, file };
      })();
      assert.ok(
        !gunzipSync(await readFile(file)).includes(canary),
        "the backup must not contain secrets in plain text",
      );

      const config = await configOf(dataDir, made?.databaseUrl);
      const restored = await restoreBackup(config, file, { logger, signal });
      assert.deepEqual({ ...restored, madeAt: "" }, { madeAt: "", deployments: 2, redeployed: 1 });
      await assert.rejects(restoreBackup(config, file, { logger, signal }), /has used this database before/);

      const server = await startServer(config, { logger });
      try {
        const client = createClient({ baseUrl: server.url, apiKey });
        const ids = { deployment_id: built.id };
        const found = await client.getDeployment(ids);
        assert.notEqual(found.latest_revision_id, built.latest_revision_id);
        await settled(client, found);
        const { url } = await client.getDeployment(ids);
        const env = await eventually(
          () => fetch(`${url}/env`).then((answer) => answer.json() as Promise<{ CANARY: string }>),
          ({ CANARY }) => CANARY !== undefined,
        );
        assert.equal(env.CANARY, `${canary}-2`);
        assert.equal(await readFile(path.join(dataDir, "state", built.id, "kept.txt"), "utf8"), "kept");
        const { resources } = await client.listRevisions(ids);
        assert.deepEqual(resources.map(({ status }) => status).slice(0, 1), ["DEPLOYED"]);
        assert.equal(resources.length, 3);
        assert.equal((await client.getDeployment({ deployment_id: image.id })).name, "image");
        const { items: notes } = await client.listAuditLog({ action: "installation.restore" });
        assert.equal(notes.length, 1);
      } finally {
        await server.close({ stopReplicas: true });
      }
    } finally {
      await rm(dataDir, { recursive: true, force: true });
      await made?.close();
    }
  });
}

test("rejects a restore with a missing or wrong master key or a damaged file, and a retry succeeds", async () => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-restored-"));
  try {
    await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none" });
    const { file, masterKey } = await backUp(pierhead, dataDir);
    const config = await configOf(dataDir, undefined);
    const restore = (from = file) => restoreBackup(config, from, { logger, signal });

    await assert.rejects(restore(), /the master key is missing: copy/);
    await writeFile(path.join(dataDir, "master.key"), Buffer.alloc(32, 7).toString("base64"));
    await assert.rejects(restore(), /under master key/);
    await cp(masterKey, path.join(dataDir, "master.key"));
    const cut = path.join(dataDir, "cut.tar.gz");
    await cp(file, cut);
    await truncate(cut, (await stat(file)).size - 100);
    await assert.rejects(restore(cut), /damaged/);
    await writeFile(cut, "hello");
    await assert.rejects(restore(cut), /damaged/);
    assert.equal((await restore()).deployments, 0);
    assert.deepEqual(
      (await readdir(dataDir)).filter((name) => name.startsWith("restore-")),
      [],
    );
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

test("backs up uploads that are on a separate disk", { skip: otherDisk === null && "one disk" }, async () => {
  const elsewhere = await mkdtemp(path.join(otherDisk as string, "pierhead-uploads-"));
  try {
    await using pierhead = await startTestServer();
    await rm(path.join(pierhead.dataDir, "uploads"), { recursive: true });
    await symlink(elsewhere, path.join(pierhead.dataDir, "uploads"));
    const { objectPath } = await uploadTo(pierhead);
    const { file } = await backUp(pierhead, elsewhere);
    assert.ok(gunzipSync(await readFile(file)).includes(objectPath));
  } finally {
    await rm(elsewhere, { recursive: true, force: true });
  }
});

test("a failed restore leaves existing uploads alone, and a retry succeeds after uploads could not be moved", async () => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-restored-"));
  try {
    await using pierhead = await startTestServer();
    const { id } = await uploadTo(pierhead);
    const { file, masterKey } = await backUp(pierhead, dataDir);
    const config = await configOf(dataDir, undefined);
    const restore = () => restoreBackup(config, file, { logger, signal });
    const uploads = path.join(dataDir, "uploads");
    await mkdir(path.join(uploads, "older"), { recursive: true });

    await writeFile(path.join(dataDir, "master.key"), Buffer.alloc(32, 7).toString("base64"));
    await assert.rejects(restore(), /under master key/);
    assert.deepEqual(await readdir(uploads), ["older"]);
    await cp(masterKey, path.join(dataDir, "master.key"));
    const full = mock.method(fs, "rename", async () => Promise.reject(new Error("no space left on device")));
    syncBuiltinESMExports();
    await assert.rejects(restore(), /no space left/);
    full.mock.restore();
    syncBuiltinESMExports();
    assert.equal((await restore()).deployments, 1);
    assert.deepEqual(await readdir(uploads), [id]);
    assert.equal((await stat(uploads)).mode & 0o777, 0o700, "only the owner may read uploaded sources");
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

test("a version that was rolled back after an additive upgrade restores its own backups", async () => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-restored-"));
  try {
    await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none" });
    const { db } = pierhead.server;
    const migrations = path.join(dataDir, "migrations");
    await cp("src/store/engine/migrations", migrations, { recursive: true });
    const added =
      "create table later (id int); insert into later values (1); alter table deployments add column later int";
    await writeFile(path.join(migrations, "9998_later.sql"), `-- additive\n${added};`);
    await migrate(db, { directory: migrations });
    await pierhead.client.createDeployment({
      body: {
        name: "kept",
        source: "internal_docker",
        source_config: { deployment_type: "dev" },
        source_revision_config: {},
      },
    });
    const { file, masterKey } = await backUp(pierhead, dataDir);
    await cp(masterKey, path.join(dataDir, "master.key"));
    const config = await configOf(dataDir, undefined);
    assert.equal((await restoreBackup(config, file, { logger, signal })).deployments, 1);

    await rm(path.join(dataDir, "database"), { recursive: true });
    await db.query(sql`update schema_migrations set additive = false where number = 9998`);
    const { file: other } = await backUp(pierhead, dataDir);
    await assert.rejects(restoreBackup(config, other, { logger, signal }), /which has 9998_later.sql: restore it with/);
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

test("a backup goes into a file of its own, although another user prepared one or a link under that name", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-backup-"));
  try {
    await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none" });
    const theirs = path.join(directory, "theirs");
    await writeFile(theirs, "");
    await symlink(theirs, path.join(directory, "backup.tar.gz.partial"));
    await backUp(pierhead, directory);
    assert.equal((await stat(theirs)).size, 0);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("sends keep-alive bytes during a slow backup, so that proxies and clients do not time out", async (context) => {
  const postgres = await startPostgresServer();
  if (postgres === undefined) return context.skip(postgresSkipped);
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-restored-"));
  try {
    await using pierhead = await startTestServer({ DATABASE_URL: postgres.url, PIERHEAD_COMPUTE: "none" });
    await using slow = await slowTable(postgres.url);
    const ask = (leaving = AbortSignal.timeout(60_000)) =>
      fetch(`${pierhead.url}/v2/admin/backup`, { headers: { "x-api-key": pierhead.apiKey }, signal: leaving });
    const leaving = new AbortController();
    const [{ body }] = await Promise.all([ask(), ask(leaving.signal)]);
    leaving.abort();
    // Get the reader now: Node cancels an unread body when the response is garbage collected.
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    // Long enough for the next keep-alive byte (10 s). The client that has left must not break that write.
    await sleep(11_000);
    const parts = [(await reader.read()).value as Uint8Array];
    await slow.query("rollback");
    for (let part = await reader.read(); !part.done; part = await reader.read()) parts.push(part.value);
    const file = path.join(dataDir, "backup.tar.gz");
    await writeFile(file, Buffer.concat(parts));
    await cp(path.join(pierhead.dataDir, "master.key"), path.join(dataDir, "master.key"));
    const restored = await restoreBackup(await configOf(dataDir, undefined), file, { logger, signal });
    assert.equal(restored.deployments, 0);

    await slow.query(locked);
    const broken = await ask();
    await slow.query("select pg_terminate_backend(pid) from pg_stat_activity where query like 'declare backup_rows%'");
    await assert.rejects(broken.arrayBuffer(), "an incomplete backup must fail the download");
  } finally {
    await postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
});

const locked = "begin; lock table log_entries in access exclusive mode";

/** Locks a table that the backup reads, as if reading it took very long. */
async function slowTable(connectionString: string): Promise<AsyncDisposable & Pick<pg.Client, "query">> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  await client.query(locked);
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
}

/** Creates a deployment and uploads an archive that no revision uses. `objectPath` is relative to the data directory. */
async function uploadTo({ client }: TestServer): Promise<{ id: string; objectPath: string }> {
  const { id } = await client.createDeployment({
    body: {
      name: "uploaded",
      source: "internal_source",
      source_config: { deployment_type: "dev" },
      source_revision_config: {},
    },
  });
  const { upload_url, object_path } = await client.createUploadUrl({ deployment_id: id });
  await client.uploadArchive(upload_url, new Blob([gzipSync("an archive")]));
  return { id, objectPath: object_path };
}
