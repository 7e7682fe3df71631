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

/**
 * Checks that a deployment may have these numbers of replicas.
 * @param running the revision whose code will run; null: none has run yet.
 * @throws ApiError 400 `cannotScale`, `invalidField`
 */
export function checkScalable(
  { name, sourceConfig: config }: Pick<CurrentDeployment, "name" | "sourceConfig">,
  running: { engine: Engine | null; rollout: Rollout | null } | null,
  { min, max }: ReplicaBounds,
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
  if (type !== null && min === 0) {
    throw errors.cannotScale(
      `'${name}' is of type 'prod', which always runs a replica. Deploy the source under a new name with type 'dev_zero' to let it sleep.`,
    );
  }
  // In a cluster, the operator of the listener decides how replicas share state.
  if (max > 1 && listenerId === null && running?.rollout === "handover") {
    throw errors.cannotScale(`'${name}' can only run one replica: ${stateOf(running.engine)}`);
  }
  normalizeResourceSpec({ min_scale: min, max_scale: max });
}

/** A server on a laptop provides none, and the change of the engine would fail. */
const ofDatabase = "If Pierhead provides no PostgreSQL, set the variable POSTGRES_URI_CUSTOM first.";

function stateOf(engine: Engine | null): string {
  if (engine === "file") {
    return `its server keeps threads and runs in files. Change its engine to 'postgres', which moves them to PostgreSQL, and scale it then. ${ofDatabase}`;
  }
  if (engine === "memory") {
    return `its server keeps threads and runs in its memory. Change its engine to 'aegra', which keeps them in PostgreSQL, and scale it then. ${ofDatabase}`;
  }
  return "its server declares local state, which two replicas cannot share. Deploy a version that keeps its state in a database, and scale it then.";
}
