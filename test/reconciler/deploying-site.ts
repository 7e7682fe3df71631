import assert from "node:assert/strict";
import type { ReconcilerDeps } from "../../src/reconciler/deps.ts";
import { reconcileDeployment } from "../../src/reconciler/loop/reconcile.ts";
import { saveArtifact } from "../../src/store/builds/artifacts.ts";
import { readDesired } from "../../src/store/data-plane/assignments.ts";
import { openListenerSession } from "../../src/store/data-plane/listener-sessions.ts";
import { storeReports } from "../../src/store/data-plane/observations.ts";
import { requestDelete } from "../../src/store/deployments/deployments.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { claim, settlePass } from "../../src/store/queue/reconcile-queue.ts";
import { makeDeployment, makeWorld } from "../store/fixtures.ts";
import { passDeps } from "./pass-deps.ts";

/** Of the reconciler of a site. */
export const settings = {
  deploymentsUrl: "http://127.0.0.1:8124/d/",
  controlPlaneUrl: "http://127.0.0.1:8124",
  deployTimeoutMs: 60_000,
  hasEndpointAuth: false,
  hasTracing: false,
  idleAfterMs: 1,
  drainTimeoutMs: 1,
} as unknown as ReconcilerDeps["settings"];

/** Creates a revision with an artifact in AWAITING_DEPLOY, for a listener that has never connected. */
export async function deployingSite(db: Db) {
  const world = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  const image = { kind: "image", digest: "sha256:0", uri: "127.0.0.1:1/a:1", health_path: "/ok", rollout: "rolling" };
  const artifactId = await saveArtifact(db, world.tenantId, "key", image as never);
  await db.query(sql`update deployments set status = 'READY' where id = ${id}`);
  await db.query(sql`update revisions set status = 'AWAITING_DEPLOY', artifact_id = ${artifactId}, deadline_at = now() + interval '1 hour'
             where id = ${revisionId}`);
  let epoch = 0;
  const desired = async () => {
    const { items } = await readDesired(db, world.listenerId, { after: 0, limit: 10 });
    const item = items.find(({ deployment_id }) => deployment_id === id);
    assert.ok(item !== undefined);
    return item;
  };
  return {
    slug: `agent-${id.slice(0, 8)}`,
    desired,
    agentUrl: async () => (await desired()).target?.env["LANGGRAPH_API_URL"],
    async connect(agents_url: string) {
      const request = { instanceId: "one", version: "1", facts: { agents_url }, leaseMs: 30_000 };
      ({ epoch } = await openListenerSession(db, world.listenerId, request));
    },
    async becomesReady() {
      const { generation } = await desired();
      const report = {
        deployment_id: id,
        generation,
        seq: 1,
        target_revision_id: revisionId,
        target_phase: "ready" as const,
        serving_revision_id: revisionId,
        asleep: false,
        deleted: false,
        server_version: null,
        cause: null,
        replicas: [],
      };
      await storeReports(db, { listenerId: world.listenerId, epoch }, [report]);
    },
    setNamespace: (namespace: string) =>
      db.query(sql`update deployments set source_config = source_config || ${JSON.stringify({ listener_config: { k8s_namespace: namespace } })}::jsonb
           where id = ${id}`),
    async setSpec(resource_spec: object) {
      const config = JSON.stringify({ resource_spec });
      await db.query(sql`update deployments set source_config = source_config || ${config}::jsonb where id = ${id}`);
      await db.query(
        sql`update revisions set source_config = source_config || ${config}::jsonb where id = ${revisionId}`,
      );
    },
    deleteIt: () => requestDelete(db, world.tenantId, id, { deleteTracingProject: false, force: false, actor: "test" }),
    async passDue() {
      const claimed = await claim(db, { owner: "test", limit: 100, leaseMs: 30_000 });
      for (const { deploymentId, generation } of claimed) {
        const { because } = await reconcileDeployment(
          passDeps(db, { settings }),
          deploymentId,
          AbortSignal.timeout(30_000),
        );
        await settlePass(db, {
          deploymentId,
          generation,
          owner: "test",
          retryAt: null,
          outcome: { kind: "waiting", because, durationMs: 1 },
        });
      }
    },
  };
}
