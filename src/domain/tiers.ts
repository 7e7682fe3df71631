import type { DeploymentTier, DeploymentType, Size, SizeName } from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";

/** The chosen sizes: one for the whole deployment, and others for its runtime or its database alone. */
export interface Tiers {
  deployment: DeploymentTier | null;
  compute: Size | null;
  database: Size | null;
}

/** The resulting sizes. */
export interface Sizes {
  compute: Size;
  database: Size;
}

export interface WantedTiers {
  deployment_tier?: DeploymentTier | null | undefined;
  compute_tier?: SizeName | null | undefined;
  database_tier?: SizeName | null | undefined;
}

/**
 * Merges tiers. A tier is a size of one kind, and the deployment type determines the kind: serverless for the types that
 * scale to zero, dedicated for `prod`; development types and external images have no tier (contract 6.1 and 13.23). A size
 * for the whole deployment replaces sizes chosen for parts.
 *
 * @throws ApiError 400 `invalidField`.
 */
export function mergeTiers(current: Tiers, type: DeploymentType | null, wanted: WantedTiers): Tiers {
  const { deployment_tier: whole = null, compute_tier: compute = null, database_tier: database = null } = wanted;
  if (whole !== null) {
    checkTier("deployment_tier", whole, type);
    return { deployment: whole, compute: null, database: null };
  }
  if (compute !== null) checkTier("compute_tier", compute, type);
  if (database !== null) {
    checkTier("database_tier", database, type);
    if (kindOf(type) === "SERVERLESS") {
      throw errors.invalidField("database_tier", "is not available: serverless deployments share a database.");
    }
  }
  return {
    deployment: current.deployment,
    compute: compute === null ? current.compute : sizeIn(compute),
    database: database === null ? current.database : sizeIn(database),
  };
}

/** Returns the sizes of a deployment; null for a type without sizes. */
export function sizesOf(type: DeploymentType | null, tiers: Tiers): Sizes | null {
  const whole = shownTier(type, tiers.deployment);
  if (whole === null) return null;
  return { compute: tiers.compute ?? sizeIn(whole), database: tiers.database ?? sizeIn(whole) };
}

/** Returns the tier that responses show. New deployments start with the smallest size. */
export function shownTier(type: DeploymentType | null, chosen: DeploymentTier | null): DeploymentTier | null {
  const kind = kindOf(type);
  return kind === null ? null : (chosen ?? `${kind}_S`);
}

/** Returns the kind of a type's tiers; null for types with one size. */
export function kindOf(type: DeploymentType | null): "SERVERLESS" | "DEDICATED" | null {
  return type === null ? null : kinds[type];
}

const kinds = {
  dev_free: null,
  dev: null,
  prod: "DEDICATED",
  dev_zero: "SERVERLESS",
  dev_free_zero: "SERVERLESS",
} as const satisfies Record<DeploymentType, "SERVERLESS" | "DEDICATED" | null>;

function checkTier(field: string, wanted: SizeName, type: DeploymentType | null): void {
  const kind = kindOf(type);
  if (kind === null) throw errors.invalidField(field, "is not available for this type of deployment.");
  if (wanted.includes("_") && !wanted.startsWith(kind)) {
    throw errors.invalidField(field, `must be one of ${kind}_S, ${kind}_M, ${kind}_L.`);
  }
}

const sizeIn = (name: SizeName) => name.slice(-1) as Size;
