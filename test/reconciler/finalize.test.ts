import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { readState } from "../../src/reconciler/plan/read-state.ts";
import type { DeploymentState } from "../../src/reconciler/plan/state.ts";
import { finalizeDeployment } from "../../src/reconciler/steps/delete-deployment.ts";
import { saveArtifact } from "../../src/store/builds/artifacts.ts";
import { createDeployment } from "../../src/store/deployments/create-deployment.ts";
import { findDeployment } from "../../src/store/deployments/deployments.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { makeDeployment, makeWorld, newDeployment } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";
import { passDeps } from "./pass-deps.ts";

const never = new AbortController().signal;

eachDatabase(
  "the end of a deployment takes no artifact that another one of the same source is on its way to",
  async (db) => {
    const world = await makeWorld(db);
    const [ending, coming] = [await makeDeployment(db, world), await makeDeployment(db, world)];
    const saved = (key: string) =>
      saveArtifact(db, world.tenantId, key, {
        ...{ kind: "directory", path: `/artifacts/${key}`, digest: randomUUID(), runtime: "node", keepsState: false },
        start: { runner: "command", argv: ["node"] },
      } as never);
    const [shared, own] = [randomUUID(), randomUUID()];
    await sql`update revisions set artifact_id = ${await saved(shared)} where id = ${ending.revisionId}`.execute(
      db.kysely,
    );
    await sql`
    insert into revisions (id, tenant_id, deployment_id, status, source, source_config, source_revision_config,
      triggered_by, artifact_id)
    select ${randomUUID()}, tenant_id, deployment_id, 'INTERRUPTED', source, source_config, source_revision_config,
           triggered_by, ${await saved(own)}
      from revisions where id = ${ending.revisionId}`.execute(db.kysely);
    await sql`update revisions set artifact_key = ${shared}, status = 'QUEUED' where id = ${coming.revisionId}`.execute(
      db.kysely,
    );
    const removed: string[] = [];
    const files = {
      removeUploads: async () => {},
      removeArtifact: async (key: string) => removed.push(key) > 0,
    };
    await finalizeDeployment(passDeps(db, { files }), await beingDeleted(db, ending.id), never);
    assert.deepEqual(removed, [own]);
  },
);

eachDatabase(
  "the end of a deployment deletes a preview that was being made when the delete was asked for",
  async (db) => {
    const world = await makeWorld(db);
    const { id } = await makeDeployment(db, world);
    const state = await beingDeleted(db, id);
    const late = newDeployment(world, { parent_deployment_id: id });
    await createDeployment(db, late);
    await finalizeDeployment(passDeps(db, { files: { removeUploads: async () => {} } as never }), state, never);
    assert.equal((await findDeployment(db, world.tenantId, late.id))?.status, "AWAITING_DELETE");
  },
);

async function beingDeleted(db: Db, id: string): Promise<DeploymentState> {
  await sql`update deployments set status = 'AWAITING_DELETE' where id = ${id}`.execute(db.kysely);
  return (await readState(db, id))?.state as DeploymentState;
}
