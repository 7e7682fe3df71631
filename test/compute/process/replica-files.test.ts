import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import {
  listReplicaIds,
  removeReplicaFiles,
  replicaFiles,
} from "../../../src/compute/process/replicas/replica-files.ts";

test("gives a replica a short directory for temporary files, and removes it with the replica", async (t) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  t.after(() => rm(dataDir, { recursive: true, force: true }));
  const ids = ["a".repeat(100), "b".repeat(100)];
  const [files, other] = ids.map((id) => replicaFiles(dataDir, id));
  assert.ok(files !== undefined && other !== undefined && files.tmp !== other.tmp);
  assert.ok(files.tmp.length - dataDir.length < 20, "sockets in it need a path of at most 107 bytes");
  for (const { directory, tmp } of [files, other]) {
    await mkdir(directory, { recursive: true });
    await mkdir(tmp, { recursive: true });
  }
  await mkdir(path.join(dataDir, "tmp", "abandoned"));
  assert.deepEqual((await listReplicaIds(dataDir)).sort(), ids);
  await removeReplicaFiles(files);
  assert.deepEqual(await readdir(path.join(dataDir, "tmp")), [path.basename(other.tmp)]);
});
