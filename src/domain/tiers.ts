import type { DeploymentTier, DeploymentType } from "../contract/deployment.ts";
import { errors } from "../contract/error.ts";

/**
 * A tier is a size of one kind, and the kind is fixed with the deployment type: serverless for the types that scale to
 * zero, dedicated for `prod`; development types and images from outside have no tier (contract 6.1).
 *
 * @throws ApiError 400 `invalidField`.
 */
export function checkTier(tier: DeploymentTier, type: DeploymentType | null): void {
  const kind = type === null ? null : kindOf[type];
  if (kind === null) throw errors.invalidField("deployment_tier", "is not available for this type of deployment.");
  if (!tier.startsWith(kind))
    throw errors.invalidField("deployment_tier", `must be one of ${kind}_S, ${kind}_M, ${kind}_L.`);
}

const kindOf: Record<DeploymentType, "SERVERLESS" | "DEDICATED" | null> = {
  dev_free: null,
  dev: null,
  prod: "DEDICATED",
  dev_zero: "SERVERLESS",
  dev_free_zero: "SERVERLESS",
};
