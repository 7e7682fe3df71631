import { maySeeSecrets } from "../../auth/permissions.ts";
import type { Principal } from "../../auth/principal.ts";
import type { AgentEnvironment, Deployment, Secret, SourceConfig } from "../../contract/deployments/deployment.ts";
import type { DeploymentHealth } from "../../contract/deployments/health.ts";
import { nextActionOf, withDeploymentName } from "../../domain/deployment-health.ts";
import { isTag } from "../../domain/refs.ts";
import { servingUrl } from "../../domain/serving-url.ts";
import { shownDeploymentType, shownSpec } from "../../domain/sizes.ts";
import { shownTier } from "../../domain/tiers.ts";
import type { DeploymentRow } from "../../store/deployments/deployments.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import { openSecrets } from "../../store/secrets/secrets.ts";

/** Who reads a deployment, and under which base URL deployments are served. */
export interface Viewer {
  sealer: Sealer;
  principal: Principal;
  /** Such as `https://agents.example.org/d/`. */
  deploymentsUrl: string;
}

/** Returns the wire shape of a deployment (contract 2.1): every key is present, null when unknown. */
export function deploymentOf(row: DeploymentRow, viewer: Viewer): Deployment {
  const url = servingUrl(row, viewer.deploymentsUrl);
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    name: row.name,
    display_name: row.display_name,
    source: row.source,
    source_config: sourceConfigOf(row, url),
    source_revision_config: row.source_revision_config,
    secrets: secretsOf(row, viewer),
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
    health: presentHealth(row),
  };
}

/** Returns the wire shape of a deployment's health. */
export function presentHealth(
  row: Pick<
    DeploymentRow,
    "name" | "health" | "health_since" | "health_reason" | "health_message" | "health_failure" | "can_roll_back"
  >,
): DeploymentHealth {
  const { name, health: word, health_reason: reason, health_message: message, health_failure: failure } = row;
  return {
    status: word,
    since: row.health_since.toISOString(),
    reason,
    message: withDeploymentName(message, name),
    failure,
    next_action: nextActionOf({ word, reason, message, failure }, { canRollBack: row.can_roll_back }),
    can_roll_back: row.can_roll_back,
  };
}

function sourceConfigOf(row: DeploymentRow, url: string): SourceConfig {
  const { source_config: config, tracked_ref: ref } = row;
  return {
    ...config,
    engine: config.engine ?? null, // deployments of earlier versions have none
    deployment_type: shownDeploymentType(config.deployment_type),
    custom_url: url,
    resource_spec:
      row.source === "external_docker" || config.listener_id !== null
        ? shownSpec(config.resource_spec ?? {})
        : config.resource_spec,
    repo_branch: ref !== null && !isTag(ref) ? ref : null,
  };
}

function secretsOf(row: DeploymentRow, { sealer, principal }: Viewer): Secret[] {
  const isReadable = maySeeSecrets(principal.role);
  return Object.entries(openSecrets(sealer, row, row)).map(([name, value]) => ({
    name,
    value: isReadable ? value : "",
  }));
}
