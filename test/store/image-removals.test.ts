import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { saveArtifact } from "../../src/store/builds/artifacts.ts";
import { listBuildOrders, placeBuildOrder } from "../../src/store/builds/build-orders.ts";
import { claimImageRemoval, endImageRemoval } from "../../src/store/builds/image-removals.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { dropSupersededArtifacts } from "../../src/store/maintenance/retention.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld, type World } from "./fixtures.ts";

const repository = "registry.example.com/agents";
const digestOf = (letter: string) => `sha256:${letter.repeat(64)}`;

/** An image that the listener built, or that a user named, and that no revision uses since two hours ago. */
async function unusedImage(db: Db, { tenantId, listenerId }: World, key: string, letter: string, isBuilt = true) {
  const manifest = { kind: "image", uri: `${repository}@${digestOf(letter)}`, digest: digestOf(letter) };
  const id = await saveArtifact(db, tenantId, key, manifest as never);
  await db.query(sql`
    update artifacts set last_used_at = now() - interval '2 hours', listener_id = ${isBuilt ? listenerId : null} where id = ${id}`);
}

async function makeBuilder(db: Db): Promise<World> {
  const world = await makeWorld(db);
  await db.query(sql`
    update listeners set facts = jsonb_build_object('image_registry', ${repository}::text) where id = ${world.listenerId}`);
  return world;
}

eachDatabase("images of superseded revisions are removed, but not those that users named", async (db) => {
  const world = await makeBuilder(db);
  await unusedImage(db, world, "built", "a");
  await unusedImage(db, world, "image:named", "b", false);
  assert.equal(await dropSupersededArtifacts(db, 10), 2);
  assert.deepEqual((await claimImageRemoval(db, world.listenerId))?.references, [digestOf("a")]);
  assert.equal(await claimImageRemoval(db, world.listenerId), null, "claimed images are not claimed again");
});

eachDatabase(
  "an image stays while another artifact has its digest, and images of another repository stay",
  async (db) => {
    const world = await makeBuilder(db);
    await unusedImage(db, world, "built", "a");
    assert.equal(await dropSupersededArtifacts(db, 10), 1);
    await unusedImage(db, world, "image:named", "a", false);
    assert.equal(await claimImageRemoval(db, world.listenerId), null);
    await db.query(sql`delete from artifacts`);
    await db.query(sql`update listeners set facts = '{"image_registry": "registry.example.com/others"}'`);
    assert.equal(await claimImageRemoval(db, world.listenerId), null);
  },
);

eachDatabase("a registry that refuses is asked again later, and what it removed is forgotten", async (db) => {
  const world = await makeBuilder(db);
  for (const letter of ["a", "b"]) await unusedImage(db, world, letter, letter);
  await dropSupersededArtifacts(db, 10);
  const removal = await claimImageRemoval(db, world.listenerId);
  assert.equal(removal?.references.length, 2);
  const removed = [digestOf("a")];
  await endImageRemoval(db, world.listenerId, {
    removal_id: removal?.removal_id as string,
    removed,
    message: "refused",
  });
  assert.equal(await claimImageRemoval(db, world.listenerId), null);
  await db.query(sql`update image_removals set next_at = now()`);
  assert.deepEqual((await claimImageRemoval(db, world.listenerId))?.references, [digestOf("b")]);
  await db.query(sql`update image_removals set leased_until = now() - interval '1 second'`);
  assert.deepEqual(
    (await claimImageRemoval(db, world.listenerId))?.references,
    [digestOf("b")],
    "its listener was lost",
  );
});

eachDatabase("images that wait are claimed at once when the registry refuses only one of a removal", async (db) => {
  const world = await makeBuilder(db);
  for (const letter of ["a", "b"]) await unusedImage(db, world, letter, letter);
  await dropSupersededArtifacts(db, 10);
  const removal = await claimImageRemoval(db, world.listenerId);
  await unusedImage(db, world, "c", "c");
  await dropSupersededArtifacts(db, 10);
  const id = removal?.removal_id as string;
  await endImageRemoval(db, world.listenerId, { removal_id: id, removed: [digestOf("a")], message: "immutable" });
  assert.deepEqual((await claimImageRemoval(db, world.listenerId))?.references, [digestOf("c")]);
});

eachDatabase("a workspace cannot hold up the builds of another one by removals for the same repository", async (db) => {
  const world = await makeBuilder(db);
  const { tenantId: otherTenantId } = await makeWorld(db);
  const otherListenerId = randomUUID();
  const facts = JSON.stringify({ image_registry: repository });
  await db.query(sql`
    insert into listeners (id, tenant_id, compute_type, compute_id, facts)
    values (${otherListenerId}, ${otherTenantId}, 'k8s', 'other', ${facts}::jsonb)`);
  const { revisionId } = await makeDeployment(db, world);
  const spec = { tag: "tag", dockerfile: "Dockerfile", timeoutS: 60, diskBytesMax: 1 };
  const order = { id: randomUUID(), revisionId, listenerId: world.listenerId, spec, contextPath: "context" };
  await placeBuildOrder(db, { ...order, expiresAt: new Date(Date.now() + 600_000) });
  await unusedImage(db, { tenantId: otherTenantId, listenerId: otherListenerId }, "theirs", "a");
  await dropSupersededArtifacts(db, 10);
  assert.deepEqual((await claimImageRemoval(db, otherListenerId))?.references, [digestOf("a")]);
  assert.equal((await listBuildOrders(db, world.listenerId)).length, 1);
  await unusedImage(db, world, "ours", "b");
  await dropSupersededArtifacts(db, 10);
  assert.deepEqual((await claimImageRemoval(db, world.listenerId))?.references, [digestOf("b")]);
  assert.deepEqual(await listBuildOrders(db, world.listenerId), []);
});
