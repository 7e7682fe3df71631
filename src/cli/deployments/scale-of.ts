import type { Deployment } from "../../contract/deployments/deployment.ts";
import { effectiveSizes } from "../../domain/sizes.ts";

/** Returns how many replicas of a deployment may run. */
export function scaleOf({ source, source_config: config }: Deployment): { minReplicas: number; maxReplicas: number } {
  const hasSpec = source === "external_docker" || config.listener_id !== null;
  return effectiveSizes(hasSpec ? null : config.deployment_type, config.resource_spec);
}
