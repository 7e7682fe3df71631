import type { Mode, Region } from "../contract/administration/info.ts";
import type { Plan } from "../contract/administration/organization.ts";
import type { SourceKind } from "../contract/deployments/deployment.ts";

export type { Mode, Plan };

export interface ModeRules {
  /** Sources a deployment can be created from. */
  sources: readonly SourceKind[];
  /** Prefixes under which the API is mounted. */
  pathPrefixes: readonly string[];
  /** Plan of an organization without a plan. */
  defaultPlan: Plan;
  /** Whether the plan decides about listeners. Otherwise every organization may have them. */
  listenersByPlan: boolean;
  /** Whether more than one installation is behind this API. */
  manyRegions: boolean;
}

const built = ["github", "internal_docker", "internal_source", "internal_template"] as const;

/** The differences between the three kinds of installation. Everything else is the same in all of them. */
export const modes: Readonly<Record<Mode, ModeRules>> = {
  standalone: {
    sources: ["github", "external_docker", "internal_docker", "internal_source", "internal_template"],
    pathPrefixes: ["", "/api-host"],
    defaultPlan: "self_hosted_enterprise",
    listenersByPlan: false,
    manyRegions: false,
  },
  cloud: { sources: built, pathPrefixes: [""], defaultPlan: "cloud", listenersByPlan: true, manyRegions: true },
  self_hosted: {
    sources: ["external_docker"],
    pathPrefixes: ["/api-host", ""],
    defaultPlan: "self_hosted_enterprise",
    listenersByPlan: true,
    manyRegions: false,
  },
};

/** Returns whether an organization with this plan may create listeners. */
export function mayHaveListeners(mode: Mode, plan: Plan): boolean {
  return !modes[mode].listenersByPlan || plan === "self_hosted_enterprise";
}

/** Names of the regions of the `cloud` mode, unless the operator configures others. */
export const defaultCloudRegions = ["us", "eu", "apac", "aws"] as const;

/**
 * Returns the regions that `/info` and the console show: all of them in `cloud`, otherwise only this one.
 * @throws RangeError when `region` is not one of `configured`, a configuration error found at start.
 */
export function shownRegions(mode: Mode, region: string, configured: readonly Region[]): Region[] {
  const here = configured.find(({ name }) => name === region);
  if (here === undefined) {
    throw new RangeError(`region "${region}" is not one of ${configured.map(({ name }) => name).join(", ")}`);
  }
  return modes[mode].manyRegions ? [...configured] : [here];
}
