import type { SourceConfig } from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import type { Engine, Rollout } from "../contract/listeners/assignment.ts";
import { normalizeResourceSpec } from "./resource-rules.ts";
import type { CurrentDeployment } from "./settings.ts";
import { effectiveSizes } from "./sizes.ts";

export interface ReplicaBounds {
  min: number;
  max: number;
}

/** Returns settings with other numbers of replicas. */
export function withReplicas(config: SourceConfig, { min, max }: ReplicaBounds): SourceConfig {
  const before = effectiveSizes(config.deployment_type, config.resource_spec);
  if (before.minReplicas === min && before.maxReplicas === max) return config;
  return { ...config, resource_spec: { ...config.resource_spec, min_scale: min, max_scale: max } };
}

/** Variables that name a database, of which a deployment may lack some. */
export type DatabaseVariable = "POSTGRES_URI_CUSTOM" | "REDIS_URI_CUSTOM";

/**
 * Checks that a deployment may have these numbers of replicas.
 * @param running the revision whose code will run; null: none has run yet.
 * @param lacking variables without which it has no PostgreSQL or no Redis.
 * @throws ApiError 400 `cannotScale`, `invalidField`
 */
export function checkScalable(
  { name, sourceConfig: config }: Pick<CurrentDeployment, "name" | "sourceConfig">,
  running: { engine: Engine | null; rollout: Rollout | null } | null,
  { min, max }: ReplicaBounds,
  lacking: readonly DatabaseVariable[],
): void {
  if (max < min) throw errors.invalidField("max_replicas", `must not be below min_replicas (${min}).`);
  const { deployment_type: type, listener_id: listenerId } = config;
  if (type !== null && type !== "prod") {
    const { minReplicas, maxReplicas } = effectiveSizes(type, null);
    const fixed = minReplicas === maxReplicas ? "one replica" : "one replica, and none without requests";
    throw errors.cannotScale(
      `'${name}' is of type '${type}', which runs ${fixed}. Deploy the source under a new name with type 'prod' to run several.`,
    );
  }
  // In a cluster, the operator of the listener decides how replicas share state.
  const isAlone = listenerId === null && running?.rollout === "handover";
  if (type !== null && min === 0) {
    throw errors.cannotScale(
      `'${name}' is of type 'prod', which always runs a replica and never sleeps. ${max > 1 && !isAlone ? `Scale it to 1-${max}. Or deploy` : "Deploy"} the source under a new name with type 'dev_zero', which sleeps and runs at most one replica.`,
    );
  }
  if (max > 1 && isAlone) {
    throw errors.cannotScale(`'${name}' can only run one replica: ${stateOf(running.engine, lacking)}`);
  }
  normalizeResourceSpec({ min_scale: min, max_scale: max });
}

function stateOf(engine: Engine | null, lacking: readonly DatabaseVariable[]): string {
  const give = (needed: readonly DatabaseVariable[]) => {
    const names = needed.filter((one) => lacking.includes(one));
    return names.length === 0 ? "" : `It has no database yet: set ${names.join(" and ")} first. `;
  };
  if (engine === "file") {
    return `its server keeps threads and runs in files. ${give(["POSTGRES_URI_CUSTOM"])}Change its engine to 'postgres', which moves them to PostgreSQL, and scale it then.`;
  }
  if (engine === "memory") {
    return `its server keeps threads and runs in its memory. ${give(["POSTGRES_URI_CUSTOM", "REDIS_URI_CUSTOM"])}Change its engine to 'aegra', which keeps them in PostgreSQL, and scale it then.`;
  }
  return "its server declares local state, which two replicas cannot share. Deploy a version that keeps its state in a database, and scale it then.";
}
