import type { ResourceSpec } from "../contract/deployments/resource-spec.ts";
import { type DeploymentSizes, effectiveSpec, queueFields, wantsWorkers } from "./sizes.ts";

/**
 * Returns a spec that asks for workers or for none. The sizes of workers say that alone where they can, because clients and listeners
 * of earlier versions do not know the field `workers`.
 */
export function withWorkers({ workers: _, ...sizes }: ResourceSpec, wants: boolean): ResourceSpec {
  return wantsWorkers(sizes) === wants ? sizes : { ...sizes, workers: wants };
}

/** Returns a spec as listeners get it: with sizes of workers if there are any, and never with the field `workers`. */
export function specForListener(spec: ResourceSpec, { queue }: DeploymentSizes): ResourceSpec {
  const { workers, ...sizes } = withWorkers(spec, wantsWorkers(spec));
  if (workers === true) return { ...sizes, queue_min_scale: queue.minReplicas };
  if (workers === false) for (const field of queueFields) delete sizes[field];
  return sizes;
}

/**
 * Decides about workers for a client that sent a whole spec back. It may not know the field `workers`, and sizes of workers that it
 * did not change do not ask for them. Other sizes do, also beside a `workers` that was only read.
 *
 * @param own what is left of the sent spec without the values that Pierhead had filled in.
 */
export function withWorkersOf(before: ResourceSpec, own: ResourceSpec, sent: ResourceSpec): ResourceSpec {
  const had = wantsWorkers(before);
  if (sent.workers != null && sent.workers !== had) return own;
  const shown = effectiveSpec(before);
  return withWorkers(own, had || queueFields.some((field) => sent[field] !== shown[field]));
}
