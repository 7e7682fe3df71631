import { randomUUID } from "node:crypto";
import { blankSourceConfig, blankSourceRevisionConfig } from "../../src/domain/settings.ts";
import { ensureBuiltinListener } from "../../src/store/data-plane/listener-sessions.ts";
import { createDeployment, type NewDeployment } from "../../src/store/deployments/create-deployment.ts";
import type { Db } from "../../src/store/engine/database.ts";
import type { NewRevision } from "../../src/store/revisions/revisions.ts";
import { createOrganization, createWorkspace } from "../../src/store/tenants/tenants.ts";

export interface World {
  tenantId: string;
  listenerId: string;
}

export async function makeWorld(db: Db): Promise<World> {
  const organizationId = await createOrganization(db, { name: "organization", plan: "cloud" });
  const tenantId = await createWorkspace(db, { organizationId, name: "workspace" });
  return { tenantId, listenerId: await ensureBuiltinListener(db, "simulated") };
}

export function newRevision(changed: Partial<NewRevision> = {}): NewRevision {
  return {
    id: randomUUID(),
    source: "github",
    source_config: blankSourceConfig,
    source_revision_config: blankSourceRevisionConfig,
    secret_set_id: null,
    secret_references: null,
    sizes: null,
    artifact_id: null,
    artifact_key: null,
    redeploy_of: null,
    triggered_by: "api",
    tracked_packages: null,
    deadline_at: new Date(Date.now() + 60_000),
    traceparent: null,
    reason: "deploy",
    made_by: "test",
    commit_message: null,
    commit_author: null,
    ...changed,
  };
}

export function newDeployment(world: World, changed: Partial<NewDeployment> = {}): NewDeployment {
  const id = randomUUID();
  return {
    id,
    tenant_id: world.tenantId,
    listener_id: world.listenerId,
    agents_url: null,
    name: `agent-${id.slice(0, 8)}`,
    slug: `agent-${id.slice(0, 8)}`,
    source: "github",
    source_config: { ...blankSourceConfig, deployment_type: "dev" },
    source_revision_config: blankSourceRevisionConfig,
    tracked_ref: "main",
    secret_references: null,
    shareable: false,
    route_through_gateway: false,
    agent_id: null,
    agent_environment: null,
    secrets: null,
    revision: newRevision(),
    tracing: { otherName: `agent-${id.slice(0, 8)}`, isWanted: false },
    actor: "test",
    ...changed,
  };
}

/** Inserts a deployment with its first revision. */
export async function makeDeployment(db: Db, world: World): Promise<{ id: string; revisionId: string }> {
  const made = newDeployment(world);
  await createDeployment(db, made);
  return { id: made.id, revisionId: (made.revision as NewRevision).id };
}
