import type { ReplicaUsage } from "../../compute.ts";
import type { Engine } from "../engine/engine.ts";

/** Fields of `GET /containers/{id}/stats`, on cgroup v1 and v2. */
interface Stats {
  cpu_stats?: { cpu_usage?: { total_usage?: number } };
  memory_stats?: { usage?: number; stats?: { inactive_file?: number; total_inactive_file?: number } };
}

/** Number of parallel calls. The engine reads a few files for each, which takes 2 ms. */
const concurrencyMax = 8;

/** Returns the usage of containers. One that ends during the call is left out. */
export async function readUsage(
  engine: Engine,
  containers: { replicaId: string; containerId: string }[],
  signal: AbortSignal,
): Promise<ReplicaUsage[]> {
  const left = [...containers];
  const found: ReplicaUsage[] = [];
  const worker = async () => {
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      const path = `/containers/${next.containerId}/stats`;
      const query = { stream: false, "one-shot": true };
      const stats = await engine.callUnless<Stats>([404, 409], "GET", path, { query, signal });
      if (stats?.memory_stats?.usage !== undefined) found.push({ replicaId: next.replicaId, ...usageOf(stats) });
    }
  };
  await Promise.all(Array.from({ length: concurrencyMax }, worker));
  return found;
}

function usageOf({ cpu_stats: cpu, memory_stats: memory }: Stats) {
  // The kernel can reclaim file pages that were not used lately, so they do not count against the limit.
  const reclaimable = memory?.stats?.inactive_file ?? memory?.stats?.total_inactive_file ?? 0;
  return {
    cpuSeconds: (cpu?.cpu_usage?.total_usage ?? 0) / 1e9,
    memoryMib: Math.max(0, (memory?.usage ?? 0) - reclaimable) / 1024 / 1024,
  };
}
