import { maySeeSecrets } from "../../auth/permissions.ts";
import type { Principal } from "../../auth/principal.ts";
import type { AgentEnvironment, Deployment, Secret, SourceConfig } from "../../contract/deployments/deployment.ts";
import type { Event } from "../../contract/logs/event.ts";
import type { LogEntry, LogType } from "../../contract/logs/log.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import { isTag } from "../../domain/refs.ts";
import { servingUrl } from "../../domain/serving-url.ts";
import { effectiveSpec, shownDeploymentType } from "../../domain/sizes.ts";
import { shownTier } from "../../domain/tiers.ts";
import type { DeploymentRow } from "../../store/deployments/deployments.ts";
import type { EventRow } from "../../store/events/events.ts";
import { type LogEntryRow, logLevels } from "../../store/logs/log-entries.ts";
import type { RevisionRow } from "../../store/revisions/revisions.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import { openSecrets } from "../../store/secrets/secrets.ts";

/** What is needed beside the row: who asks, and under which base deployments are served. */
export interface Showing {
  sealer: Sealer;
  principal: Principal;
  /** Such as `https://agents.example.org/d/`. */
  deploymentsUrl: string;
}

/** The wire shape of a deployment (contract 2.1): every key present, null when unknown. */
export function deploymentOf(row: DeploymentRow, showing: Showing): Deployment {
  const url = servingUrl(row, showing.deploymentsUrl);
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    name: row.name,
    display_name: row.display_name,
    source: row.source,
    source_config: sourceConfigOf(row, url),
    source_revision_config: row.source_revision_config,
    secrets: secretsOf(row, showing),
    secret_references: row.secret_references,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    status: row.status,
    latest_revision_id: row.latest_revision_id,
    active_revision_id: row.active_revision_id,
    image_version: row.image_version,
    url,
    tracer_session_id: row.tracer_session_id,
    shareable: row.shareable,
    route_through_gateway: row.route_through_gateway,
    is_preview: row.is_preview,
    is_managed_deep_agent: false,
    agent:
      row.agent_id === null ? null : { agent_id: row.agent_id, environment: row.agent_environment as AgentEnvironment },
    deployment_tier: shownTier(row.source_config.deployment_type, row.deployment_tier),
    compute_tier: row.compute_tier,
    database_tier: row.database_tier,
    tracked_packages: row.tracked_packages,
    parent_deployment_id: row.parent_deployment_id,
  };
}

/** The wire shape of a revision (contract 2.5). */
export function revisionOf(row: RevisionRow): Revision {
  return {
    id: row.id,
    deployment_id: row.deployment_id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    status: row.status,
    status_message: row.status_message,
    source: row.source,
    source_revision_config: row.source_revision_config,
    image_version: row.image_version,
    triggered_by: row.triggered_by,
    rollout: row.rollout,
    artifact_digest: row.artifact_digest,
    builder_version: row.builder_version,
  };
}

/** The wire shape of a log line (contract 3.4). */
export function logEntryOf(row: LogEntryRow, kind: LogType): LogEntry {
  return {
    id: String(row.id),
    timestamp: row.logged_at.toISOString(),
    level: levelNames.get(row.level) ?? "INFO",
    message: row.message,
    source: kind,
    revision_id: row.revision_id,
    replica: row.replica_id,
    stream: row.stream === "stdout" || row.stream === "stderr" ? row.stream : null,
    run_id: null,
  };
}

const levelNames = new Map<number, string>(Object.entries(logLevels).map(([name, level]) => [level, name]));

/** The wire shape of an event. */
export function eventOf(row: EventRow): Event {
  return {
    id: String(row.id),
    type: row.kind,
    created_at: row.created_at.toISOString(),
    tenant_id: row.tenant_id,
    deployment_id: row.deployment_id,
    deployment_name: row.deployment_name ?? (row.data["name"] as string | undefined) ?? null,
    revision_id: row.revision_id,
    data: row.data,
  };
}

function sourceConfigOf(row: DeploymentRow, url: string): SourceConfig {
  const { source_config: config, tracked_ref: ref } = row;
  return {
    ...config,
    deployment_type: shownDeploymentType(config.deployment_type),
    custom_url: url,
    resource_spec: row.source === "external_docker" ? effectiveSpec(config.resource_spec ?? {}) : null,
    repo_branch: ref !== null && !isTag(ref) ? ref : null,
  };
}

function secretsOf(row: DeploymentRow, { sealer, principal }: Showing): Secret[] {
  const isReadable = maySeeSecrets(principal.role);
  return Object.entries(openSecrets(sealer, row, row)).map(([name, value]) => ({
    name,
    value: isReadable ? value : "",
  }));
}
