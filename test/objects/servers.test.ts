import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { cp, mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { list } from "tar";
import { createListenerClient, httpSend } from "../../src/client/listener-client.ts";
import { ObjectStorage } from "../../src/integrations/object-storage.ts";
import { readConfig } from "../../src/server/config.ts";
import { restoreBackup } from "../../src/server/restore.ts";
import { BucketUploads } from "../../src/server/uploads.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { gzippedTar } from "../builds/tar-fixture.ts";
import { runCli } from "../cli/run-cli.ts";
import { nodeAgent } from "../support/agent-repository.ts";
import { openTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { filesBelow } from "../support/files-below.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { startObjectServer } from "./object-server.ts";

const objects = await startObjectServer();
after(() => objects[Symbol.asyncDispose]());
const signal = AbortSignal.timeout(120_000);

const keys = async () => (await filesBelow(objects.directory)).map((file) => path.basename(file));

const archiveOf = (text: string) =>
  gzippedTar(Object.entries(nodeAgent(text)).map(([name, content]) => ({ name, content })));

async function upload({ client }: TestServer, deployment_id: string, archive: Buffer): Promise<string> {
  const { upload_url, object_path } = await client.createUploadUrl({ deployment_id });
  const answer = await fetch(upload_url, { method: "PUT", body: new Uint8Array(archive) });
  assert.equal(answer.status, 200, await answer.text());
  return object_path;
}

const deployUpload = ({ client }: TestServer, deployment_id: string, source_tarball_path: string) =>
  client.patchDeployment({
    deployment_id,
    body: {
      revision_source: "internal_source",
      source_revision_config: { source_tarball_path, langgraph_config_path: "pierhead.json" },
    },
  });

async function settled({ client }: TestServer, deployment: { id: string; latest_revision_id: string | null }) {
  const ids = { deployment_id: deployment.id, revision_id: deployment.latest_revision_id as string };
  const revision = await client.waitForRevision(ids);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
}

test("a source that one server received is built by another one after the first has gone with its disk", async (context) => {
  const database = await openTestDatabase("postgres");
  if (database === undefined) return context.skip("PostgreSQL is not installed");
  const environment = {
    ...objects.environment,
    DATABASE_URL: database.databaseUrl as string,
    PIERHEAD_COMPUTE: "none",
    PIERHEAD_MASTER_KEY: randomBytes(32).toString("hex"),
    PIERHEAD_ADMIN_KEY: `ph_${"a".repeat(40)}`,
  };
  const first = await startTestServer(environment);
  const body = { compute_type: "k8s", compute_id: "cluster", compute_config: {} } as const;
  const listener = await first.client.createListener({ body });
  const hello = {
    ...{ instance_id: "one", version: "1.0.0", protocols: [1], compute_type: "kubernetes" as const },
    image_registry: "registry.example.com/agents",
  };
  await createListenerClient(httpSend(first.url, listener.listener_key)).openSession(hello, signal);
  const source_config = { listener_id: listener.id };
  const made = await first.client.createDeployment({
    body: { name: "moved", source: "internal_source", source_config, source_revision_config: {}, secrets: [] },
  });
  const object_path = await upload(first, made.id, archiveOf("from the bucket"));
  assert.deepEqual(await keys(), [path.basename(object_path)]);
  assert.deepEqual(await readdir(path.join(first.dataDir, "uploads")), []);
  await first[Symbol.asyncDispose]();

  await using second = await startTestServer(environment);
  const session = await createListenerClient(httpSend(second.url, listener.listener_key)).openSession(hello, signal);
  await deployUpload(second, made.id, object_path);
  const [order] = await session.buildOrders([], 30_000, signal);
  assert.ok(order);
  // A load balancer may choose a server that did not prepare the context.
  await using third = await startTestServer(environment);
  const answer = await fetch(third.url + order.context_path, { redirect: "manual" });
  assert.equal(answer.status, 200);
  const names: string[] = [];
  const reading = list({ onReadEntry: (entry) => void names.push(entry.path) });
  reading.end(Buffer.from(await answer.arrayBuffer()));
  await eventually(
    () => names,
    (found) => found.includes("source/server.js"),
    { timeoutMs: 10_000, what: "the source" },
  );

  await second.client.deleteDeployment({ deployment_id: made.id });
  await eventually(keys, (left) => left.length === 0, { timeoutMs: 30_000, what: "the deletion of the archive" });
  await database.close();
});

test("archives of the data directory move to the bucket, are deployed from there, and come back with a backup", async () => {
  await using server = await startTestServer();
  const made = await server.client.createDeployment({
    body: { name: "moves", source: "internal_source", source_config: {}, source_revision_config: {}, secrets: [] },
  });
  const object_path = await upload(server, made.id, archiveOf("kept"));
  await server.restart(objects.environment);
  assert.deepEqual(await keys(), [path.basename(object_path)]);
  assert.deepEqual(await readdir(path.join(server.dataDir, "uploads")), []);
  await settled(server, await deployUpload(server, made.id, object_path));

  const newer = await upload(server, made.id, archiveOf("newer"));
  const file = path.join(server.dataDir, "backup.tar.gz");
  const env = { PATH: process.env["PATH"], PIERHEAD_API_KEY: server.apiKey };
  const saved = await runCli(["backup", file, "--url", server.url], { env });
  assert.equal(saved.code, 0, saved.stderr);
  const restored = path.join(server.dataDir, "restored");
  await mkdir(restored);
  const config = readConfig({
    PIERHEAD_DATA_DIR: restored,
    PIERHEAD_MASTER_KEY_FILE: path.join(server.dataDir, "master.key"),
  });
  await restoreBackup(config, file, { logger: createLogger("silent"), signal });
  const found = await readdir(path.join(restored, "uploads"), { recursive: true });
  assert.ok(found.includes(path.join(made.id, path.basename(object_path))));

  // Back to the disk: keys are paths below the data directory.
  await cp(path.join(objects.directory, "uploads"), path.join(server.dataDir, "uploads"), { recursive: true });
  await server.restart({ PIERHEAD_S3_BUCKET: "" });
  await settled(server, await deployUpload(server, made.id, newer));
});

test("servers store a backup in the bucket when one is due, which fills an empty installation", async () => {
  const environment = { ...objects.environment, PIERHEAD_S3_PREFIX: "saved/" };
  await using server = await startTestServer({
    ...environment,
    PIERHEAD_BACKUP_HOURS: "1",
    PIERHEAD_BACKUPS_KEPT: "2",
  });
  const { id: deployment_id } = await server.client.createDeployment({
    body: { name: "saved", source: "internal_source", source_config: {}, source_revision_config: {}, secrets: [] },
  });
  const objectPath = await upload(server, deployment_id, archiveOf("saved"));
  const backups = path.join(objects.directory, "saved", "backups");
  await mkdir(backups, { recursive: true });
  const old = ["20250101", "20250102"].map((day) => `pierhead-${day}T000000Z.tar.gz`);
  for (const name of old) await writeFile(path.join(backups, name), "old");
  const names = () => readdir(backups).then((found) => found.filter((name) => name.startsWith("pierhead-")).sort());
  const [kept, made] = await eventually(names, (found) => found.length === 2 && found[0] === old[1], {
    timeoutMs: 60_000,
  });
  assert.equal(kept, old[1]);

  const restored = path.join(server.dataDir, "restored");
  await mkdir(restored);
  const config = readConfig({
    ...environment,
    PIERHEAD_DATA_DIR: restored,
    PIERHEAD_MASTER_KEY_FILE: path.join(server.dataDir, "master.key"),
  });
  const options = { logger: createLogger("silent"), signal };
  await assert.rejects(
    restoreBackup(config, "bucket:other", options),
    new RegExp(`no backup 'other'.*newest: ${made}`),
  );
  assert.equal((await restoreBackup(config, "bucket:latest", options)).deployments, 1);
  await using again = await startTestServer({
    ...environment,
    PIERHEAD_DATA_DIR: restored,
    PIERHEAD_MASTER_KEY_FILE: config.masterKeyFile ?? "",
  });
  await settled(again, await deployUpload(again, deployment_id, objectPath));
});

test("an upload that the object storage does not take is refused as temporary, and succeeds on the same URL later", async () => {
  const { directory } = objects;
  await using server = await startTestServer({ ...objects.environment, PIERHEAD_S3_PREFIX: "later/" });
  const { id: deployment_id } = await server.client.createDeployment({
    body: { name: "later", source: "internal_source", source_config: {}, source_revision_config: {}, secrets: [] },
  });
  const { upload_url } = await server.client.createUploadUrl({ deployment_id });
  const put = () => fetch(upload_url, { method: "PUT", body: new Uint8Array(archiveOf("later")) });
  const aside = path.join(path.dirname(directory), "aside");
  await rename(directory, aside);
  const refused = await put();
  assert.equal(refused.status, 503);
  assert.deepEqual((await refused.json()) as object, {
    detail: "The object storage of this server did not take the archive. Send it again in a moment.",
  });
  await rename(aside, directory);
  assert.equal((await put()).status, 200);
  assert.deepEqual(await readdir(path.join(server.dataDir, "uploads")), []);
  assert.equal((await readdir(path.join(directory, "later", "uploads", deployment_id))).length, 1);
});

test("what a crash left of a deleted deployment does not move to the bucket", async () => {
  await using server = await startTestServer();
  const left = path.join(server.dataDir, "uploads", `${randomUUID()}.doomed-${randomUUID()}`);
  await mkdir(left, { recursive: true });
  await writeFile(path.join(left, `${randomUUID()}.tar.gz`), archiveOf("deleted"));
  await server.restart({ ...objects.environment, PIERHEAD_S3_PREFIX: "crashed/" });
  assert.deepEqual(await readdir(path.join(server.dataDir, "uploads")), []);
  assert.equal((await readdir(objects.directory)).includes("crashed"), false);
});

test("a restore that fails keeps the archives that the bucket had before", async () => {
  const [old, fresh] = [`uploads/${randomUUID()}/1.tar.gz`, `uploads/${randomUUID()}/2.tar.gz`];
  const unpacked = await mkdtemp(path.join(tmpdir(), "pierhead-unpacked-"));
  after(() => rm(unpacked, { recursive: true, force: true }));
  for (const objectPath of [old, fresh]) {
    await mkdir(path.dirname(path.join(unpacked, objectPath)), { recursive: true });
    await writeFile(path.join(unpacked, objectPath), archiveOf(objectPath));
  }
  const storage = new ObjectStorage({ ...objects.bucket, prefix: "restored/" });
  const uploads = new BucketUploads(storage);
  const live = path.join(unpacked, "live");
  await cp(path.join(unpacked, path.dirname(old)), path.join(live, path.dirname(old)), { recursive: true });
  await uploads.moveFrom(live, signal);
  const undo = await uploads.takeOver(unpacked, signal);
  assert.equal(await storage.has(fresh, signal), true);
  await undo();
  assert.deepEqual([await storage.has(old, signal), await storage.has(fresh, signal)], [true, false]);
});

test("a server with a bucket that it cannot use does not start and says which setting to check", async () => {
  await assert.rejects(
    startTestServer({ ...objects.environment, PIERHEAD_S3_SECRET_ACCESS_KEY: "wrong" }),
    /answered 403.*PIERHEAD_S3_SECRET_ACCESS_KEY/,
  );
  await assert.rejects(
    startTestServer({ PIERHEAD_S3_BUCKET: "sources" }),
    /PIERHEAD_S3_BUCKET needs PIERHEAD_S3_ACCESS_KEY_ID/,
  );
});
