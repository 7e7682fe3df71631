import type { CreateDeployment, Deployment, SourceConfig } from "../../contract/deployments/deployment.ts";
import type { ResourceSpec } from "../../contract/deployments/resource-spec.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import { parseImageReference } from "../../domain/image-reference.ts";
import { effectiveSizes } from "../../domain/sizes.ts";
import type { Placement } from "../deployments/find-listener.ts";
import { scaleOf } from "../deployments/scale-of.ts";
import { movedFrom } from "./sides.ts";

interface Wanted {
  source: Deployment;
  /** The revision of it that serves. */
  serving: Revision;
  name: string;
  /** Of another listener; without `listener_id` and `listener_selector` the server runs it. */
  placement: Placement;
  groupIds: string[];
  /** Integration of the target. */
  integrationId: string | null;
}

/** Returns the new deployment: what serves now, with the settings and the variables of now. Pushes follow when it has moved. */
export function targetBody({ source, serving, name, placement, groupIds, integrationId }: Wanted): CreateDeployment {
  const { source_config: config, secrets, secret_references: references } = source;
  const isInCluster = placement.listener_id != null || placement.listener_selector != null;
  const isRepository = source.source === "github";
  const code = serving.source_revision_config;
  const settings = {
    ...placement,
    ...sizesFor(source, isInCluster),
    ...(isRepository && { repo_url: config.repo_url, build_on_push: false, integration_id: integrationId }),
    template_id: config.template_id,
    install_command: config.install_command,
    build_command: config.build_command,
    engine: config.engine ?? (serving.engine === "postgres" || serving.engine === "aegra" ? serving.engine : null),
  };
  return {
    name,
    source: source.source,
    source_config: settings,
    source_revision_config: {
      ...(isRepository && {
        repo_ref: code.repo_commit_sha ?? code.repo_ref,
        langgraph_config_path: code.langgraph_config_path,
      }),
      ...(source.source === "external_docker" && { image_uri: pinnedImage(serving) }),
    },
    secrets: [...secrets.filter((one) => one.name !== movedFrom), { name: movedFrom, value: source.id }],
    ...(references !== null && references.length > 0 && isInCluster && { secret_references: references }),
    ...(groupIds.length > 0 && { variable_group_ids: groupIds }),
    shareable: source.shareable,
    route_through_gateway: source.route_through_gateway,
  };
}

/** Returns the image that serves, by its digest if another machine can find that one. An image without a registry may be local. */
export function pinnedImage({ source_revision_config: { image_uri: uri }, artifact_digest: digest }: Revision) {
  const image = uri === null ? null : parseImageReference(uri);
  if (image === null || image.registry === null || image.digest !== null) return uri;
  return digest?.startsWith("sha256:") ? `${image.registry}/${image.repository}@${digest}` : uri;
}

type Sizing = Pick<SourceConfig, "deployment_type" | "resource_spec">;

/** A listener takes a resource spec, and the server itself a type, except for images. */
function sizesFor(source: Deployment, isInCluster: boolean): Partial<Sizing> {
  const { source_config: config } = source;
  const { deployment_type: type, resource_spec: spec } = config;
  const hasSpec = source.source === "external_docker" || config.listener_id !== null;
  if (isInCluster || source.source === "external_docker") return { resource_spec: hasSpec ? spec : specOf(source) };
  if (!hasSpec) return { deployment_type: type, ...(type === "prod" && spec !== null && { resource_spec: spec }) };
  const { minReplicas, maxReplicas } = scaleOf(source);
  return { deployment_type: "prod", resource_spec: { min_scale: Math.max(1, minReplicas), max_scale: maxReplicas } };
}

function specOf({ source_config: { deployment_type: type, resource_spec: spec } }: Deployment): ResourceSpec {
  const { minReplicas, maxReplicas, cpuCores, cpuLimitCores, memoryMib, memoryLimitMib } = effectiveSizes(type, spec);
  return {
    min_scale: minReplicas,
    max_scale: maxReplicas,
    cpu: cpuCores,
    cpu_limit: cpuLimitCores,
    memory_mb: memoryMib,
    memory_limit_mb: memoryLimitMib,
  };
}
