import assert from "node:assert/strict";
import { once } from "node:events";
import { access, mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { ObjectStorage } from "../../src/integrations/object-storage.ts";
import { BucketUploads } from "../../src/server/uploads.ts";

test("gives up an object storage that takes an archive and never answers", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-bucket-test-"));
  after(() => rm(directory, { recursive: true, force: true }));
  await using silent = createServer((socket) => void socket.resume()).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const storage = new ObjectStorage({
    endpoint: `http://127.0.0.1:${(silent.address() as AddressInfo).port}`,
    ...{ region: "us-east-1", bucket: "sources", prefix: "", accessKeyId: "a", secretAccessKey: "b" },
  });
  const archive = { path: path.join(directory, "1.tar.gz"), sha256: "0".repeat(64), sizeBytes: 4 };
  await writeFile(archive.path, "text");
  const uploads = new BucketUploads(storage, { timeoutMs: 200 });
  const never = new AbortController().signal;
  await assert.rejects(uploads.keep(archive, "uploads/a/1.tar.gz", never), {
    name: "ObjectStorageError",
    message: /does not answer/,
  });
  await access(archive.path);
  const copied = uploads.copyTo("uploads/a/1.tar.gz", path.join(directory, "copy"), never);
  await assert.rejects(copied, { name: "ObjectStorageError" });
});
