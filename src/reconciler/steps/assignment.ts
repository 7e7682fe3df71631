import { sql } from "kysely";
import type { DeploymentType, SourceConfig, SourceRevisionConfig } from "../../contract/deployments/deployment.ts";
import type { Artifact, RevisionRun } from "../../contract/listeners/assignment.ts";
import type { ClusterRun, SecretReference } from "../../contract/listeners/cluster.ts";
import { agentEnvironment } from "../../domain/agent-environment.ts";
import { servingUrl } from "../../domain/serving-url.ts";
import { type DeploymentSizes, effectiveSizes, shownDeploymentType } from "../../domain/sizes.ts";
import type { Sizes } from "../../domain/tiers.ts";
import type { NewAssignment } from "../../store/data-plane/assignments.ts";
import { batched } from "../../store/engine/batched.ts";
import { activeSpan } from "../../telemetry/traces.ts";
import type { ReconcilerDeps, ReconcilerSettings } from "../deps.ts";

/** Which revisions a listener should know of; null ids: none. */
export interface AssignmentWish {
  deploymentId: string;
  op: "apply" | "delete";
  targetRevisionId: string | null;
  servingRevisionId: string | null;
}

/**
 * What the data plane should run, spelled out so that a listener needs nothing else but the secrets.
 * @returns undefined when the deployment is gone.
 */
export async function assignmentOf(
  { db, settings }: Pick<ReconcilerDeps, "db" | "settings">,
  wish: AssignmentWish,
): Promise<NewAssignment | undefined> {
  const rows = await readAssigned(db, wish);
  const deployment = rows[0];
  if (deployment === undefined) return undefined;
  const runFor = (id: string | null) => {
    const row = rows.find(({ revision_id }) => id !== null && revision_id === id);
    return row === undefined ? null : runOf(row, settings);
  };
  const target = runFor(wish.targetRevisionId);
  const span = activeSpan();
  return {
    deployment_id: deployment.deployment_id,
    tenant_id: deployment.tenant_id,
    listener_id: deployment.listener_id,
    slug: deployment.slug,
    op: wish.op,
    target,
    serving: wish.servingRevisionId === wish.targetRevisionId ? target : runFor(wish.servingRevisionId),
    // What is to be run says so itself.
    ...(wish.op === "delete" && deployment.namespace !== null && { namespace: deployment.namespace }),
    idle_after_ms: target?.min_replicas === 0 ? settings.idleAfterMs : null,
    agents_url: deployment.agents_url,
    ...(span && { traceparent: span.traceparent }),
  };
}

interface AssignedRow {
  deployment_id: string;
  tenant_id: string;
  listener_id: string;
  slug: string;
  namespace: string | null;
  agents_url: string | null;
  name: string;
  shareable: boolean;
  revision_id: string | null;
  source_config: SourceConfig;
  source_revision_config: SourceRevisionConfig;
  tracing_project: string;
  secret_set_id: string | null;
  secret_references: SecretReference[] | null;
  is_builtin: boolean;
  sizes: Sizes | null;
  manifest: Artifact | null;
}

/** A row for each revision of the wish, or one without a revision. */
const readAssigned = batched(async (db, wishes: AssignmentWish[]): Promise<AssignedRow[][]> => {
  const revisionIds = wishes.flatMap(({ targetRevisionId, servingRevisionId }) => [
    targetRevisionId,
    servingRevisionId,
  ]);
  const { rows } = await sql<AssignedRow>`
    select d.id as deployment_id, d.tenant_id, d.listener_id, d.slug, d.name, d.shareable, d.source_config #>> '{listener_config,k8s_namespace}' as namespace, l.facts ->> 'agents_url' as agents_url, l.builtin as is_builtin, r.secret_references, r.id as revision_id, r.source_config,
           r.source_revision_config, r.sizes, a.manifest, coalesce(t.project, d.name) as tracing_project,
           coalesce(r.secret_set_id, (select b.deployment_id from deployment_databases b where b.deployment_id = d.id)) as secret_set_id
      from deployments d join listeners l on l.id = d.listener_id
      left join tracing_projects t on t.deployment_id = d.id
      left join revisions r on r.deployment_id = d.id and r.id = any(${revisionIds}::uuid[])
      left join artifacts a on a.id = r.artifact_id
     where d.id = any(${wishes.map(({ deploymentId }) => deploymentId)}::uuid[])`.execute(db.kysely);
  const found = Map.groupBy(rows, (row) => row.deployment_id);
  return wishes.map(({ deploymentId }) => found.get(deploymentId) ?? []);
});

function runOf(row: AssignedRow, settings: ReconcilerSettings): RevisionRun {
  if (row.revision_id === null || row.manifest === null) {
    throw new Error(`revision ${row.revision_id} has no artifact to run`);
  }
  const sizes = effectiveSizes(
    row.source_config.deployment_type as DeploymentType | null,
    row.source_config.resource_spec,
    row.sizes,
  );
  const url = servingUrl(row, settings.deploymentsUrl);
  return {
    revision_id: row.revision_id,
    artifact: row.manifest,
    env: agentEnvironment({
      tenantId: row.tenant_id,
      deploymentId: row.deployment_id,
      deploymentName: row.name,
      tracingProject: row.tracing_project,
      revisionId: row.revision_id,
      isShareable: row.shareable,
      url,
      hasEndpointAuth: settings.hasEndpointAuth,
      controlPlaneUrl: settings.controlPlaneUrl,
      git: gitFacts(row),
    }),
    // What a deployment without secrets is given all the same is asked for under its own id.
    secret_set_id: row.secret_set_id ?? (settings.hasTracing ? row.deployment_id : null),
    min_replicas: sizes.minReplicas,
    max_replicas: sizes.maxReplicas,
    cpu_limit_cores: sizes.cpuLimitCores,
    memory_limit_mib: sizes.memoryLimitMib,
    start_timeout_ms: settings.deployTimeoutMs,
    drain_timeout_ms: settings.drainTimeoutMs,
    cluster: row.is_builtin ? null : clusterRunOf(row, sizes, url),
  };
}

function clusterRunOf(row: AssignedRow, sizes: DeploymentSizes, url: string): ClusterRun {
  const { source_config: config, secret_references: references } = row;
  return {
    namespace: config.listener_config?.k8s_namespace ?? null,
    spec: config.resource_spec ?? {},
    sizes,
    secret_references: references ?? [],
    url,
    profile: shownDeploymentType(config.deployment_type) === "prod" ? "production" : "development",
  };
}

function gitFacts({ source_config: config, source_revision_config: revision }: AssignedRow) {
  if (config.repo_url === null || revision.repo_commit_sha === null) return null;
  return {
    repoUrl: config.repo_url,
    ref: revision.repo_ref ?? "",
    commitSha: revision.repo_commit_sha,
    configPath: revision.langgraph_config_path ?? "",
  };
}
