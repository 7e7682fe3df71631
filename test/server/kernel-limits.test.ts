import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { lowKernelLimits } from "../../src/server/kernel-limits.ts";

test("reports the limits of the kernel that one agent can take from all others, until they are raised", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  const write = async (name: string, value: string) => {
    await mkdir(path.join(directory, path.dirname(name)), { recursive: true });
    await writeFile(path.join(directory, name), `${value}\n`);
  };
  assert.deepEqual(lowKernelLimits(directory), [], "a system without these limits");
  await write("fs/epoll/max_user_watches", "5491511");
  await write("fs/inotify/max_user_instances", "1000000");
  await write("net/ipv4/neigh/default/gc_thresh3", "1024");
  assert.deepEqual(lowKernelLimits(directory), [
    "fs.epoll.max_user_watches is 5491511, not 1000000000",
    "net.ipv4.neigh.default.gc_thresh3 is 1024, not 1048576",
  ]);
  await write("fs/epoll/max_user_watches", "1000000000");
  await write("net/ipv4/neigh/default/gc_thresh3", "1048576");
  assert.deepEqual(lowKernelLimits(directory), []);
  await rm(directory, { recursive: true });
});
