import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { bridgesToLoopback, lowKernelLimits } from "../../src/server/kernel-limits.ts";

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

test("the installer sets the limits that the guide names", async () => {
  const blocks = await Promise.all(
    ["deploy/install.sh", "docs/guides/docker.md"].map(async (file) => {
      const text = await readFile(path.join(import.meta.dirname, "../..", file), "utf8");
      return [...text.matchAll(/^[\w.]+ = \d+$/gm)].map(([line]) => line);
    }),
  );
  assert.deepEqual(blocks[0], blocks[1]);
  assert.ok(blocks[0]?.includes("fs.epoll.max_user_watches = 1000000000"));
});

test("reports the bridges of an engine from which builds reach the loopback of the machine", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  assert.deepEqual(bridgesToLoopback(directory), [], "a system without devices");
  const devices = { all: "0", lo: "1", eth0: "1", docker0: "1", "br-1181d107bc0b": "0", "br-eb3370e47670": "1" };
  for (const [name, value] of Object.entries(devices)) {
    const device = path.join(directory, "net/ipv4/conf", name);
    await mkdir(device, { recursive: true });
    await writeFile(path.join(device, "route_localnet"), `${value}\n`);
  }
  assert.deepEqual(bridgesToLoopback(directory).sort(), ["br-eb3370e47670", "docker0"]);
  await rm(directory, { recursive: true });
});
