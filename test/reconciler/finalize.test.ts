import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readState } from "../../src/reconciler/plan/read-state.ts";
import type { DeploymentState } from "../../src/reconciler/plan/state.ts";
import { finalizeDeployment } from "../../src/reconciler/steps/delete-deployment.ts";
import { saveArtifact } from "../../src/store/builds/artifacts.ts";
import { createDeployment } from "../../src/store/deployments/create-deployment.ts";
import { findDeployment } from "../../src/store/deployments/deployments.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { makeDeployment, makeWorld, newDeployment } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";
import { passDeps } from "./pass-deps.ts";

const never = new AbortController().signal;
const finalize = { kind: "finalize" };

eachDatabase("a delete keeps an artifact that another deployment of the same source is about to use", async (db) => {
  const world = await makeWorld(db);
  const [ending, starting] = [await makeDeployment(db, world), await makeDeployment(db, world)];
  const saved = (key: string) =>
    saveArtifact(db, world.tenantId, key, {
      kind: "directory",
      path: `/artifacts/${key}`,
      digest: randomUUID(),
      runtime: "node",
      keepsState: false,
      start: { runner: "command", argv: ["node"] },
    } as never);
  const [shared, own] = [randomUUID(), randomUUID()];
  await db.query(sql`update revisions set artifact_id = ${await saved(shared)} where id = ${ending.revisionId}`);
  await db.query(sql`
    insert into revisions (id, tenant_id, deployment_id, status, source, source_config, source_revision_config,
      triggered_by, artifact_id)
    select ${randomUUID()}, tenant_id, deployment_id, 'INTERRUPTED', source, source_config, source_revision_config,
           triggered_by, ${await saved(own)}
      from revisions where id = ${ending.revisionId}`);
  await db.query(
    sql`update revisions set artifact_key = ${shared}, status = 'QUEUED' where id = ${starting.revisionId}`,
  );
  const removed: string[] = [];
  const files = {
    isDiskLow: async () => false,
    ...{ locateUpload: async (path: string) => ({ path }), removeUploads: async () => {} },
    removeArtifact: async (key: string) => removed.push(key) > 0,
  };
  await finalizeDeployment(passDeps(db, { files }), await beingDeleted(db, ending.id), finalize, never);
  assert.deepEqual(removed, [own]);
});

eachDatabase("a delete also deletes a preview that was being created when the delete was requested", async (db) => {
  const world = await makeWorld(db);
  const { id } = await makeDeployment(db, world);
  const state = await beingDeleted(db, id);
  const late = newDeployment(world, { parent_deployment_id: id });
  await createDeployment(db, late);
  const files = {
    isDiskLow: async () => false,
    ...{ locateUpload: async (path: string) => ({ path }), removeUploads: async () => {} },
    removeArtifact: async () => true,
  };
  await finalizeDeployment(passDeps(db, { files }), state, finalize, never);
  assert.equal((await findDeployment(db, world.tenantId, late.id))?.status, "AWAITING_DELETE");
});

async function beingDeleted(db: Db, id: string): Promise<DeploymentState> {
  await db.query(sql`update deployments set status = 'AWAITING_DELETE' where id = ${id}`);
  return (await readState(passDeps(db).store, id))?.state as DeploymentState;
}
