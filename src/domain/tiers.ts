import type { DeploymentTier, DeploymentType, Size, SizeName } from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";

/** What was chosen: a size for the whole deployment, and others for its runtime or its database alone. */
export interface Tiers {
  deployment: DeploymentTier | null;
  compute: Size | null;
  database: Size | null;
}

/** The sizes that follow from it. */
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
 * A tier is a size of one kind, and the kind is fixed with the deployment type: serverless for the types that scale to
 * zero, dedicated for `prod`; development types and images from outside have no tier (contract 6.1 and 13.23). A size for
 * the whole replaces what was chosen for a part.
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

/** null: a type that has no sizes. */
export function sizesOf(type: DeploymentType | null, tiers: Tiers): Sizes | null {
  const whole = shownTier(type, tiers.deployment);
  if (whole === null) return null;
  return { compute: tiers.compute ?? sizeIn(whole), database: tiers.database ?? sizeIn(whole) };
}

/** New deployments begin with the smallest size. */
export function shownTier(type: DeploymentType | null, chosen: DeploymentTier | null): DeploymentTier | null {
  const kind = kindOf(type);
  return kind === null ? null : (chosen ?? `${kind}_S`);
}

/** null: types of one size. */
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
