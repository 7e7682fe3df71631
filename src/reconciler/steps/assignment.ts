import type { DeploymentType } from "../../contract/deployments/deployment.ts";
import type { Artifact, RevisionRun } from "../../contract/listeners/assignment.ts";
import type { ClusterRun } from "../../contract/listeners/cluster.ts";
import { agentEnvironment } from "../../domain/agent-environment.ts";
import { servingUrl } from "../../domain/serving-url.ts";
import { type DeploymentSizes, effectiveSizes, shownDeploymentType } from "../../domain/sizes.ts";
import { specForListener } from "../../domain/workers.ts";
import type { AssignedRevisionRow, DesiredAssignment } from "../../store/data-plane/assigned-revisions.ts";
import type { NewAssignment } from "../../store/data-plane/assignments.ts";
import { activeSpan } from "../../telemetry/traces.ts";
import type { ReconcilerSettings, StepDeps } from "../deps.ts";

/**
 * Returns everything a listener needs to run the desired revisions, except their secrets; undefined when the deployment
 * is gone.
 */
export async function describeAssignment(
  { store, settings }: Pick<StepDeps, "store" | "settings">,
  desired: DesiredAssignment,
): Promise<NewAssignment | undefined> {
  const rows = await store.readAssignedRevisions(desired);
  const deployment = rows[0];
  if (deployment === undefined) return undefined;
  const runFor = (id: string | null) => {
    const row = rows.find(({ revision_id }) => id !== null && revision_id === id);
    return row === undefined ? null : runOf(row, settings);
  };
  const target = runFor(desired.targetRevisionId);
  const span = activeSpan();
  return {
    deployment_id: deployment.deployment_id,
    tenant_id: deployment.tenant_id,
    listener_id: deployment.listener_id,
    slug: deployment.slug,
    op: desired.op,
    target,
    serving: desired.servingRevisionId === desired.targetRevisionId ? target : runFor(desired.servingRevisionId),
    // Revisions to run name their namespace themselves.
    ...(desired.op === "delete" && deployment.namespace !== null && { namespace: deployment.namespace }),
    idle_after_ms: target?.min_replicas === 0 ? settings.idleAfterMs : null,
    agents_url: deployment.agents_url,
    ...(span && { traceparent: span.traceparent }),
  };
}

function runOf(row: AssignedRevisionRow, settings: ReconcilerSettings): RevisionRun {
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
    artifact: knownToAll(row.manifest),
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
      agent: row.agent,
      git: gitFacts(row),
    }),
    // A deployment without secrets gets the tracing variables under its own id.
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

/** Leaves out a reason for the engine that listeners of earlier versions do not know: they refuse such an assignment. */
function knownToAll({ engine_because: because, ...artifact }: Artifact): Artifact {
  return because === undefined || because === "packages" ? artifact : { ...artifact, engine_because: because };
}

function clusterRunOf(row: AssignedRevisionRow, sizes: DeploymentSizes, url: string): ClusterRun {
  const { source_config: config, secret_references: references } = row;
  return {
    namespace: config.listener_config?.k8s_namespace ?? null,
    spec: specForListener(config.resource_spec ?? {}, sizes),
    sizes,
    secret_references: references ?? [],
    url,
    profile: shownDeploymentType(config.deployment_type) === "prod" ? "production" : "development",
  };
}

function gitFacts({ source_config: config, source_revision_config: revision }: AssignedRevisionRow) {
  if (config.repo_url === null || revision.repo_commit_sha === null) return null;
  return {
    repoUrl: config.repo_url,
    ref: revision.repo_ref ?? "",
    commitSha: revision.repo_commit_sha,
    configPath: revision.langgraph_config_path ?? "",
  };
}
