import assert from "node:assert/strict";
import { blankSourceConfig, blankSourceRevisionConfig } from "../../src/domain/settings.ts";
import type { ReconcilerDeps } from "../../src/reconciler/deps.ts";
import { reconcileDeployment } from "../../src/reconciler/loop/reconcile.ts";
import { readDesired } from "../../src/store/data-plane/assignments.ts";
import { openListenerSession } from "../../src/store/data-plane/listener-sessions.ts";
import { storeReports } from "../../src/store/data-plane/observations.ts";
import { createDeployment } from "../../src/store/deployments/create-deployment.ts";
import { findDeployment } from "../../src/store/deployments/deployments.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { makeWorld, newDeployment, newRevision, type World } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";
import { settings as settingsOfSite } from "./deploying-site.ts";
import { passDeps } from "./pass-deps.ts";

const settings: ReconcilerDeps["settings"] = { ...settingsOfSite, computeType: "docker" };

eachDatabase(
  "the version of a deployed image is the one its server reports, or else the tag of the image",
  async (db) => {
    const world = await makeWorld(db);
    const tagged = "registry.example.org:5000/acme/bot:2.1";
    const digest = `sha256:${"a".repeat(64)}`;
    assert.deepEqual(
      [
        await deploy(db, world, { image: tagged, reports: null }),
        await deploy(db, world, { image: `${tagged}@${digest}`, reports: null }),
        await deploy(db, world, { image: tagged, reports: "0.4.7" }),
        await deploy(db, world, { image: `registry.example.org/acme/bot@${digest}`, reports: null }),
      ],
      ["2.1", "2.1", "0.4.7", null],
    );
  },
);

/** Deploys an image whose server reports a version, or none as in clusters. Returns the deployment's `image_version`. */
async function deploy(db: Db, world: World, { image, reports }: { image: string; reports: string | null }) {
  const config = { ...blankSourceRevisionConfig, image_uri: image };
  const source = { source: "external_docker", source_revision_config: config } as const;
  const revision = newRevision({ ...source, source_config: blankSourceConfig });
  const made = newDeployment(world, { ...source, source_config: blankSourceConfig, tracked_ref: null, revision });
  await createDeployment(db, made);
  await db.query(sql`update deployments set status = 'READY' where id = ${made.id}`);
  const pass = () => reconcileDeployment(passDeps(db, { settings }), made.id, AbortSignal.timeout(30_000));
  await pass();
  const request = { instanceId: world.listenerId, version: "1", facts: {}, leaseMs: 30_000 };
  const { epoch } = await openListenerSession(db, world.listenerId, request);
  const { items } = await readDesired(db, world.listenerId, { after: 0, limit: 10 });
  const generation = items.find(({ deployment_id }) => deployment_id === made.id)?.generation;
  assert.ok(generation !== undefined, "the deployment is assigned");
  const report = {
    deployment_id: made.id,
    generation,
    seq: 1,
    target_revision_id: revision.id,
    target_phase: "ready" as const,
    serving_revision_id: revision.id,
    asleep: false,
    deleted: false,
    server_version: reports,
    cause: null,
    replicas: [],
  };
  await storeReports(db, { listenerId: world.listenerId, epoch }, [report]);
  await pass();
  const row = await findDeployment(db, world.tenantId, made.id);
  assert.equal(row?.active_revision_id, revision.id);
  return row?.image_version;
}
