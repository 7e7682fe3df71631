import type { DeploymentType, Size, SourceConfig } from "../contract/deployments/deployment.ts";
import type { ResourceSpec } from "../contract/deployments/resource-spec.ts";
import { kindOf, type Sizes } from "./tiers.ts";

export interface ContainerSizes {
  cpuCores: number;
  cpuLimitCores: number;
  memoryMib: number;
  memoryLimitMib: number;
}

export interface WorkloadSizes extends ContainerSizes {
  minReplicas: number;
  maxReplicas: number;
}

/** The sizes of a deployment: the server itself, queue workers, Redis and the database. */
export interface DeploymentSizes extends WorkloadSizes {
  queue: WorkloadSizes;
  redis: ContainerSizes;
  database: ContainerSizes & { storageGib: number; connectionsMax: number };
}

/**
 * Returns sizes with every default filled in. A deployment type and its tier fix them (contract 6.1). An `external_docker`
 * deployment has no type and chooses them in its resource spec (contract 2.4).
 *
 * @param spec already checked and rounded by `normalizeResourceSpec`. With a type, only its numbers of replicas count.
 * @param sizes of the revision; null: the smallest.
 */
export function effectiveSizes(
  type: DeploymentType | null,
  spec: ResourceSpec | null,
  sizes: Sizes | null = null,
): DeploymentSizes {
  if (type === null) return sizesOfSpec(spec ?? {});
  return sizesOfSpec({
    ...specOfType[type],
    ...specOfSizes(type, sizes ?? { compute: "S", database: "S" }),
    ...(spec?.min_scale != null && { min_scale: spec.min_scale }),
    ...(spec?.max_scale != null && { max_scale: spec.max_scale }),
  });
}

/** Returns whether queue replicas of their own execute the runs, as far as a spec decides it (contract 2.4). */
export function wantsWorkers(spec: ResourceSpec): boolean {
  return spec.workers ?? queueFields.some((field) => spec[field] != null);
}

/** Sizes of queue replicas. */
export const queueFields = [
  ...(["queue_min_scale", "queue_max_scale", "queue_cpu", "queue_cpu_limit"] as const),
  ...(["queue_memory_mb", "queue_memory_limit_mb"] as const),
];

/** Returns a resource spec as responses show it: with default values for missing ones (contract 2.4). */
export function shownSpec(spec: ResourceSpec): ResourceSpec {
  return { ...effectiveSpec(spec), workers: wantsWorkers(spec) };
}

/** Returns a resource spec with default sizes for missing values (contract 2.4). */
export function effectiveSpec(spec: ResourceSpec): ResourceSpec {
  const { queue, redis, database, ...server } = effectiveSizes(null, spec);
  return {
    ...spec,
    min_scale: server.minReplicas,
    max_scale: server.maxReplicas,
    cpu: server.cpuCores,
    cpu_limit: server.cpuLimitCores,
    memory_mb: server.memoryMib,
    memory_limit_mb: server.memoryLimitMib,
    queue_min_scale: queue.minReplicas,
    queue_max_scale: queue.maxReplicas,
    queue_cpu: queue.cpuCores,
    queue_cpu_limit: queue.cpuLimitCores,
    queue_memory_mb: queue.memoryMib,
    queue_memory_limit_mb: queue.memoryLimitMib,
    redis_cpu: redis.cpuCores,
    redis_cpu_limit: redis.cpuLimitCores,
    redis_memory_mb: redis.memoryMib,
    redis_memory_limit_mb: redis.memoryLimitMib,
    db_cpu: database.cpuCores,
    db_cpu_limit: database.cpuLimitCores,
    db_memory_mb: database.memoryMib,
    db_memory_limit_mb: database.memoryLimitMib,
    db_storage_gi: database.storageGib,
    db_max_connections: database.connectionsMax,
  };
}

/** Returns the maximum replicas of the agent server in these settings, which the quota counts. */
export function replicasOf(config: Pick<SourceConfig, "deployment_type" | "resource_spec">): number {
  return effectiveSizes(config.deployment_type, config.resource_spec).maxReplicas;
}

/** Returns the type that responses show: an external image has none and counts as `prod` (contract 2.2). */
export function shownDeploymentType(type: DeploymentType | null): DeploymentType {
  return type ?? "prod";
}

/** Returns whether the last replica stops when there are no requests. */
export function scalesToZero(type: DeploymentType | null): boolean {
  return type !== null && specOfType[type].min_scale === 0;
}

const development = { cpu: 1, cpu_limit: 1, memory_mb: 1024, memory_limit_mb: 1024, min_scale: 1, max_scale: 1 };
const production = { cpu: 2, cpu_limit: 2, memory_mb: 2048, memory_limit_mb: 2048, min_scale: 1, max_scale: 10 };
const serverless = { ...development, min_scale: 0 };

/** Guaranteed resources of one replica. If the type has sizes, they define the limits. */
const specOfType: Record<DeploymentType, ResourceSpec> = {
  dev_free: development,
  dev: development,
  prod: production,
  dev_zero: serverless,
  dev_free_zero: serverless,
};

/** Cores and GiB over all containers of a size. Here one replica contains the whole runtime, so they are its limit. */
const runtimeOf: Record<"SERVERLESS" | "DEDICATED", Record<Size, readonly [cores: number, gib: number]>> = {
  SERVERLESS: { S: [1, 3], M: [5, 6], L: [9, 11] },
  DEDICATED: { S: [3, 6], M: [5, 12], L: [10, 24] },
};
const databaseOf: Record<Size, readonly [cores: number, gib: number]> = { S: [1, 4], M: [2, 8], L: [4, 16] };

/** The smallest size keeps the guarantee of its type; larger ones guarantee half of their limit. */
function specOfSizes(type: DeploymentType, { compute, database }: Sizes): ResourceSpec {
  const kind = kindOf(type);
  if (kind === null) return {};
  const [cores, gib] = runtimeOf[kind][compute];
  const [databaseCores, databaseGib] = databaseOf[database];
  return {
    ...(compute !== "S" && { cpu: cores / 2, memory_mb: (gib / 2) * 1024 }),
    cpu_limit: cores,
    memory_limit_mb: gib * 1024,
    ...(kind === "DEDICATED" && {
      ...{ db_cpu: databaseCores, db_cpu_limit: databaseCores },
      ...{ db_memory_mb: databaseGib * 1024, db_memory_limit_mb: databaseGib * 1024 },
    }),
  };
}

function sizesOfSpec(spec: ResourceSpec): DeploymentSizes {
  const cpuCores = spec.cpu ?? 1;
  const memoryMib = spec.memory_mb ?? 2048;
  const { min, max } = scale(spec.min_scale, spec.max_scale, { min: 1, max: 1 });
  const queueScale = scale(spec.queue_min_scale, spec.queue_max_scale, { min, max });
  const redisMib = spec.redis_memory_mb ?? 2048;
  return {
    minReplicas: min,
    maxReplicas: max,
    ...container(cpuCores, spec.cpu_limit, memoryMib, spec.memory_limit_mb),
    queue: {
      minReplicas: queueScale.min,
      maxReplicas: queueScale.max,
      ...container(
        spec.queue_cpu ?? cpuCores,
        spec.queue_cpu_limit,
        spec.queue_memory_mb ?? memoryMib,
        spec.queue_memory_limit_mb,
      ),
    },
    // Redis evicts keys when it is full; a doubled limit would only hide that it is too small (contract 2.4).
    redis: container(spec.redis_cpu ?? 1, spec.redis_cpu_limit, redisMib, spec.redis_memory_limit_mb ?? redisMib),
    database: {
      ...container(spec.db_cpu ?? 1, spec.db_cpu_limit, spec.db_memory_mb ?? 2048, spec.db_memory_limit_mb),
      storageGib: spec.db_storage_gi ?? 10,
      connectionsMax: spec.db_max_connections ?? 100,
    },
  };
}

/** Limits default to twice the request. */
function container(
  cpuCores: number,
  cpuLimit: number | null | undefined,
  memoryMib: number,
  memoryLimit: number | null | undefined,
): ContainerSizes {
  return {
    cpuCores,
    cpuLimitCores: cpuLimit ?? 2 * cpuCores,
    memoryMib,
    memoryLimitMib: memoryLimit ?? 2 * memoryMib,
  };
}

/** A bound given alone also moves the default of the other one, so that `min_scale: 3` alone is not a contradiction. */
function scale(
  min: number | null | undefined,
  max: number | null | undefined,
  fallback: { min: number; max: number },
): { min: number; max: number } {
  const lower = min ?? Math.min(fallback.min, max ?? fallback.min);
  return { min: lower, max: max ?? Math.max(fallback.max, lower) };
}
