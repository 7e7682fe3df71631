import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, test } from "node:test";
import { ObjectStorage } from "../../src/integrations/object-storage.ts";
import { BucketLogArchive } from "../../src/server/log-archives.ts";
import { freePort } from "../support/free-port.ts";
import { startObjectServer } from "./object-server.ts";

const objects = await startObjectServer();
const directory = await mkdtemp(path.join(tmpdir(), "pierhead-object-test-"));
after(async () => {
  await objects[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});
const signal = AbortSignal.timeout(60_000);
const storage = new ObjectStorage({ ...objects.bucket, prefix: "team a/" });

async function fileOf(content: Buffer | string) {
  const file = path.join(directory, createHash("md5").update(content).digest("hex"));
  await writeFile(file, content);
  const sha256 = createHash("sha256").update(content).digest("hex");
  return { path: file, sha256, sizeBytes: Buffer.byteLength(content) };
}

test("keeps a file, returns it for a signed URL, and deletes it", async () => {
  const content = Buffer.alloc(3_000_000, "pierhead ");
  await storage.put("uploads/a/1.tar.gz", await fileOf(content), signal);
  const target = path.join(directory, "copy");
  assert.equal(await storage.fetchTo("uploads/a/1.tar.gz", target, signal), true);
  assert.deepEqual(await readFile(target), content);
  const url = await storage.presign("uploads/a/1.tar.gz", 60_000);
  assert.deepEqual(Buffer.from(await (await fetch(url)).arrayBuffer()), content);
  assert.equal((await fetch(url.replace("1.tar.gz", "2.tar.gz"))).status, 403);
  assert.equal((await fetch(url.split("?")[0] as string)).status, 403);
  assert.equal((await fetch(url, { method: "DELETE" })).status, 403);
  await storage.remove("uploads/a/1.tar.gz", signal);
  await storage.remove("uploads/a/1.tar.gz", signal);
  assert.equal(await storage.fetchTo("uploads/a/1.tar.gz", path.join(directory, "none"), signal), false);
});

test("stores a stream of unknown length in parts, and nothing of one that breaks off", async () => {
  const piece = Buffer.alloc(7_000_000, "part ");
  const sent = createHash("sha256");
  const pieces = async function* (count: number) {
    for (let index = 0; index < count; index += 1) {
      piece.writeUInt32BE(index);
      sent.update(piece);
      yield Buffer.from(piece);
    }
  };
  await storage.putStream("backups/1", () => pieces(10), signal);
  const target = path.join(directory, "parts");
  await storage.fetchTo("backups/1", target, signal);
  assert.equal(
    createHash("sha256")
      .update(await readFile(target))
      .digest("hex"),
    sent.digest("hex"),
  );
  const broken = async function* () {
    yield* [piece, piece, piece, piece, piece, piece];
    throw new Error("the disk is gone");
  };
  await assert.rejects(storage.putStream("backups/2", broken, signal), /the disk is gone/);
  assert.deepEqual(await storage.list("backups/", signal), ["backups/1"]);
});

test("deletes everything below a prefix and nothing beside it", async () => {
  for (const key of ["uploads/b/1.tar.gz", "uploads/b/2.tar.gz", "uploads/bb/3.tar.gz"])
    await storage.put(key, await fileOf(key), signal);
  await storage.removeAll("uploads/b/", signal);
  const has = (key: string) => storage.fetchTo(key, path.join(directory, key.replaceAll("/", "-")), signal);
  assert.equal(await has("uploads/b/1.tar.gz"), false);
  assert.equal(await has("uploads/b/2.tar.gz"), false);
  assert.equal(await has("uploads/bb/3.tar.gz"), true);
});

test("a file that differs from its digest is not stored", async () => {
  const file = {
    ...(await fileOf("what arrived")),
    sha256: createHash("sha256").update("what was sent").digest("hex"),
  };
  await assert.rejects(storage.put("uploads/c/1.tar.gz", file, signal), { name: "ObjectStorageError", status: 400 });
  assert.equal(await storage.fetchTo("uploads/c/1.tar.gz", path.join(directory, "damaged"), signal), false);
});

test("a wrong key, a missing bucket and a wrong address have a message each, and none of them has the secret", async () => {
  const cases = [
    [{ secretAccessKey: "wrong-secret" }, 403, /PIERHEAD_S3_SECRET_ACCESS_KEY/],
    [{ bucket: "missing" }, 404, /Create the bucket/],
    [
      { endpoint: `http://127.0.0.1:${await freePort()}` },
      null,
      /does not answer \(ECONNREFUSED\).*PIERHEAD_S3_ENDPOINT/,
    ],
  ] as const;
  for (const [changed, status, message] of cases) {
    const other = new ObjectStorage({ ...objects.bucket, ...changed });
    const file = await fileOf("d");
    for (const act of [() => other.check(signal), () => other.put("uploads/d/1.tar.gz", file, signal)]) {
      const error = await act().then(
        () => assert.fail("it was accepted"),
        (failure: Error & { status: number | null }) => failure,
      );
      assert.equal(error.status, status, error.message);
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /wrong-secret|of-a-test/);
    }
  }
});

test("keeps archived log lines by day, replaces a file that is stored again, and deletes old days", async () => {
  const archive = new BucketLogArchive(storage);
  const read = async (name: string) => {
    const found = await storage.open(`log-archive/${name}`, signal);
    return found && (await text(found.content));
  };
  for (const [day, content] of [
    ["2026-01-01", "a"],
    ["2026-01-02", "b"],
    ["2026-01-02", "more"],
    ["2026-01-03", "c"],
  ])
    await archive.put(`${day}/deployment/1.jsonl.gz`, Buffer.from(content ?? ""), signal);
  assert.equal(await read("2026-01-02/deployment/1.jsonl.gz"), "more");
  assert.equal(await archive.removeBefore("2026-01-03", signal), 2);
  assert.equal(await archive.removeBefore("2026-01-03", signal), 0);
  assert.equal(await read("2026-01-02/deployment/1.jsonl.gz"), undefined);
  assert.equal(await read("2026-01-03/deployment/1.jsonl.gz"), "c");
  await storage.removeAll("log-archive/", signal);
});
