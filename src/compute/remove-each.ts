import type { Compute } from "./compute.ts";

/**
 * Removes replicas. A removal that fails does not stop the others.
 * @throws the first error of a removal, after all removals have settled.
 */
export async function removeEach(
  compute: Pick<Compute, "remove">,
  replicaIds: Iterable<string>,
  options: { graceMs: number; signal: AbortSignal },
): Promise<void> {
  const removals = Array.from(new Set(replicaIds), (replicaId) => compute.remove(replicaId, options));
  const failed = (await Promise.allSettled(removals)).find(({ status }) => status === "rejected");
  if (failed?.status === "rejected") throw failed.reason;
}
