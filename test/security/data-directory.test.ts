import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { startTestServer } from "../support/server.ts";

/** The data directory, if other users of the machine could open it, and what they could open directly in it. */
async function openToOthers(directory: string): Promise<string[]> {
  const found: string[] = [];
  const look = async (place: string, levels: number) => {
    const { mode } = await stat(place);
    if ((mode & 0o077) !== 0) found.push(`${path.relative(directory, place) || "."} ${(mode & 0o777).toString(8)}`);
    if (levels === 0 || !(await stat(place)).isDirectory()) return;
    for (const name of await readdir(place)) await look(path.join(place, name), levels - 1);
  };
  await look(directory, 1);
  return found;
}

test("other users of the machine cannot open the data directory, also one with open permissions from before", async () => {
  await using server = await startTestServer();
  const made = await server.client.createDeployment({
    body: {
      name: "agent",
      source: "internal_template",
      source_config: { template_id: "node-server", deployment_type: "dev" },
      source_revision_config: {},
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  assert.equal((await server.client.waitForRevision(ids)).status, "DEPLOYED");
  const { dataDir } = server;
  const before = await openToOthers(dataDir);
  await writeFile(path.join(dataDir, "left.json"), "{}", { mode: 0o644 });
  await mkdir(path.join(dataDir, "left"), { mode: 0o755 });
  for (const name of ["", "master.key", "credentials.json", "uploads", "artifacts"]) {
    const place = path.join(dataDir, name);
    await chmod(place, (await stat(place)).isDirectory() ? 0o755 : 0o644);
  }
  await server.restart();
  assert.deepEqual(before, []);
  assert.deepEqual(await openToOthers(dataDir), []);
  const { url } = await server.client.getDeployment({ deployment_id: made.id });
  assert.equal((await fetch(`${url}/ok`)).status, 200, "the agent still runs");
});

test("a link in the data directory does not change what it leads to", async () => {
  await using server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
  const outside = await mkdtemp(path.join(tmpdir(), "pierhead-outside-"));
  try {
    await chmod(outside, 0o755);
    await symlink(outside, path.join(server.dataDir, "linked"));
    await server.restart();
    assert.equal((await stat(outside)).mode & 0o777, 0o755);
  } finally {
    await rm(outside, { recursive: true, force: true });
  }
});
