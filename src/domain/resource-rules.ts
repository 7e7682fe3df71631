import { findPodProblem } from "../contract/deployments/pod-rules.ts";
import type { ResourceSpec } from "../contract/deployments/resource-spec.ts";
import { errors } from "../contract/error.ts";
import { replicasMax, resourceSpecBytesMax } from "./limits.ts";
import { type ContainerSizes, effectiveSizes, effectiveSpec } from "./sizes.ts";
import { withWorkersOf } from "./workers.ts";

/**
 * Rounds CPU values to tenths and refuses a contradictory spec, or one with fields that pods may not have. The bounds of single
 * values are in the schema, so they were checked before rounding (contract 2.4).
 *
 * @param podRights what the operator of the listener allows beyond the defaults.
 * @throws ApiError 400 `invalidField`.
 */
export function normalizeResourceSpec(spec: ResourceSpec, podRights: readonly string[] = []): ResourceSpec {
  if (new TextEncoder().encode(JSON.stringify(spec)).length > resourceSpecBytesMax) {
    const because = `must have at most ${resourceSpecBytesMax} bytes as JSON.`;
    throw errors.invalidField("source_config.resource_spec", because);
  }
  const rounded = withRoundedCores(spec);
  checkCounts(rounded);
  checkScale("", rounded.min_scale, rounded.max_scale);
  checkScale("queue_", rounded.queue_min_scale, rounded.queue_max_scale);
  checkLimits(rounded);
  const problem = findPodProblem(rounded, { rights: podRights });
  if (problem !== null) refuse(problem.field, problem.because);
  return rounded;
}

/** Returns a spec with its CPU values as they are stored. */
export function withRoundedCores(spec: ResourceSpec): ResourceSpec {
  const rounded: ResourceSpec = { ...spec };
  for (const field of roundedFields) {
    const cores = rounded[field];
    if (typeof cores === "number") rounded[field] = roundToTenth(cores);
  }
  return rounded;
}

/**
 * Removes filled-in values from a spec. Responses fill in defaults, and clients that know only a few fields, such as
 * Terraform, read a spec, set theirs and send it back whole. A filled-in value that comes back unchanged is not theirs: it
 * stays filled in if it would be the same, and is filled in again if it no longer fits, such as a limit below its new request.
 *
 * @param before the spec as stored.
 */
export function withoutDefaults(sent: ResourceSpec, before: ResourceSpec): ResourceSpec {
  const shown = effectiveSpec(before);
  const fields = Object.keys(shown) as (keyof ResourceSpec)[];
  const filledIn = fields.filter((field) => before[field] == null && shown[field] != null);
  // A client that omits some of the filled-in values has not read them: take its spec as it is.
  if (filledIn.some((field) => sent[field] == null)) return sent;
  const unchanged = filledIn.filter((field) => sent[field] === shown[field]);
  const own: ResourceSpec = { ...sent };
  for (const field of unchanged) delete own[field];
  const refilled = effectiveSpec(own);
  const kept = unchanged.filter((field) => sent[field] !== refilled[field] && !isOutgrown(field, sent));
  return withWorkersOf(before, { ...own, ...Object.fromEntries(kept.map((field) => [field, sent[field]])) }, sent);
}

/** Returns whether a maximum lies below its minimum. */
function isOutgrown(field: keyof ResourceSpec, spec: ResourceSpec): boolean {
  const least = field.replace("_limit", "").replace("max_scale", "min_scale") as keyof ResourceSpec;
  return Number(spec[field]) < Number(spec[least]);
}

const roundedFields = ["cpu", "cpu_limit", "queue_cpu", "queue_cpu_limit", "redis_cpu", "redis_cpu_limit"] as const;

const positiveFields = [
  ...["memory_mb", "memory_limit_mb", "queue_memory_mb", "queue_memory_limit_mb", "redis_memory_mb"],
  ...["redis_memory_limit_mb", "core_memory_mb", "core_memory_limit_mb", "db_memory_mb", "db_memory_limit_mb"],
  ...["db_storage_gi", "db_max_connections", "db_cpu", "db_cpu_limit"],
] as (keyof ResourceSpec)[];

/**
 * Rounds as Python's `round(x, 1)`: halves go to the even tenth, so 0.25 becomes 0.2. `toFixed` works on the exact
 * binary value and sends halves up; the only halves a double can hold exactly are .25 and .75, and .75 goes up anyway.
 */
export function roundToTenth(value: number): number {
  return Number((value % 1 === 0.25 ? value - 0.01 : value).toFixed(1));
}

function checkCounts(spec: ResourceSpec): void {
  for (const field of positiveFields) {
    const value = spec[field];
    if (typeof value === "number" && value <= 0) refuse(field, "must be greater than 0.");
  }
}

/** Checks a range of replicas. Without a type, 0 is how a deployment chooses to sleep (contract 2.4). */
function checkScale(prefix: "" | "queue_", min: number | null | undefined, max: number | null | undefined): void {
  if (typeof min === "number" && (min < 0 || min > replicasMax)) {
    refuse(`${prefix}min_scale`, `must be between 0 and ${replicasMax}.`);
  }
  if (typeof max === "number" && (max < 1 || max > replicasMax)) {
    refuse(`${prefix}max_scale`, `must be between 1 and ${replicasMax}.`);
  }
  if (typeof min === "number" && typeof max === "number" && min > max) {
    refuse(`${prefix}max_scale`, `must not be below ${prefix}min_scale (${min}).`);
  }
}

/** Compares with defaults filled in, because a limit given alone must not lie below the default request. */
function checkLimits(spec: ResourceSpec): void {
  const sizes = effectiveSizes(null, spec);
  const containers: [string, ContainerSizes][] = [
    ["", sizes],
    ["queue_", sizes.queue],
    ["redis_", sizes.redis],
    ["db_", sizes.database],
  ];
  for (const [prefix, { cpuCores, cpuLimitCores, memoryMib, memoryLimitMib }] of containers) {
    const shown = (field: string, value: number) =>
      `${prefix}${field} (${value}${spec[`${prefix}${field}` as keyof ResourceSpec] == null ? ", the default" : ""}).`;
    if (cpuLimitCores < cpuCores) refuse(`${prefix}cpu_limit`, `must not be below ${shown("cpu", cpuCores)}`);
    if (memoryLimitMib < memoryMib) {
      refuse(`${prefix}memory_limit_mb`, `must not be below ${shown("memory_mb", memoryMib)}`);
    }
  }
  if ((spec.core_cpu_limit ?? Infinity) < (spec.core_cpu ?? 0)) refuse("core_cpu_limit", "must not be below core_cpu.");
  if ((spec.core_memory_limit_mb ?? Infinity) < (spec.core_memory_mb ?? 0)) {
    refuse("core_memory_limit_mb", "must not be below core_memory_mb.");
  }
}

function refuse(field: string, because: string): never {
  throw errors.invalidField(`source_config.resource_spec.${field}`, because);
}
