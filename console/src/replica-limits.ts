import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import type { Replica } from "../../src/contract/deployments/replica.ts";
import { effectiveSizes } from "../../src/domain/sizes.ts";
import { sizesOf } from "../../src/domain/tiers.ts";

/** What one replica may use. null: its host enforces no limit, or the limit is not known. */
export interface ReplicaLimits {
  cpuCores: number | null;
  memoryMib: number | null;
}

const mebibytesOf: Record<string, number> = { Ki: 1 / 1_024, Mi: 1, Gi: 1_024 };

/** Returns the limits of a deployment's replicas, as the host of the first one reports them. A cluster reports quantities. */
export function limitsOf(deployment: Deployment, replicas: readonly Replica[]): ReplicaLimits {
  const reported = replicas.find(({ phase }) => phase === "ready")?.limits;
  if (reported === undefined) return { cpuCores: null, memoryMib: null };
  const { source, source_config: config, deployment_tier: whole, compute_tier: compute, database_tier } = deployment;
  const type = source === "external_docker" ? null : config.deployment_type;
  const tiers = sizesOf(type, { deployment: whole, compute, database: database_tier });
  const sizes = effectiveSizes(type, config.resource_spec, tiers);
  return {
    cpuCores: reported.cpu === "enforced" ? sizes.cpuLimitCores : coresIn(reported.cpu),
    // Without a limit of swap the limit of memory holds too.
    memoryMib: /^enforced(, but swap|$)/.test(reported.memory) ? sizes.memoryLimitMib : mebibytesIn(reported.memory),
  };
}

function coresIn(quantity: string): number | null {
  // A container engine with fewer cores than the limit reports a sentence.
  const [, amount, milli] = /^(?:enforced at )?(\d+(?:\.\d+)?)(m?)(?:$| cores?\b)/.exec(quantity) ?? [];
  return amount === undefined ? null : Number(amount) / (milli === "m" ? 1_000 : 1);
}

function mebibytesIn(quantity: string): number | null {
  const [, amount, unit = ""] = /^(\d+(?:\.\d+)?)(Ki|Mi|Gi)$/.exec(quantity) ?? [];
  return amount === undefined ? null : Number(amount) * (mebibytesOf[unit] ?? 1);
}
