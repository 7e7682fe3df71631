import { readdir, readFile } from "node:fs/promises";
import type { ReplicaUsage } from "../../compute.ts";

/** The kernel counts user time in hundredths of a second, independent of its own clock (`USER_HZ`, proc(5)). */
const ticksPerSecond = 100;

/** Number of processes read at once. Each takes one small file, and a busy machine must not run out of descriptors. */
const atOnce = 64;

/**
 * Returns processor time and resident memory per session; each replica is one session. Children that ended and were waited
 * for count in their parent's time. Memory that processes of one replica share is counted for each of them.
 * @param replicas replica ids by the pid of their session leader.
 */
export async function readSessionUsage(
  replicas: ReadonlyMap<number, string>,
  signal: AbortSignal,
): Promise<ReplicaUsage[]> {
  const found = new Map<string, ReplicaUsage>();
  if (process.platform !== "linux" || replicas.size === 0) return [];
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  for (let from = 0; from < pids.length; from += atOnce) {
    signal.throwIfAborted();
    await Promise.all(pids.slice(from, from + atOnce).map((pid) => addProcess(found, replicas, pid)));
  }
  return [...found.values()];
}

async function addProcess(
  found: Map<string, ReplicaUsage>,
  replicas: ReadonlyMap<number, string>,
  pid: string,
): Promise<void> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    // Fields 6 (session) and 14 to 17 (times) of proc(5), counted after the name in parentheses, which may contain anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const replicaId = replicas.get(Number(fields[3]));
    if (replicaId === undefined) return;
    const residentKib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    const usage = found.get(replicaId) ?? { replicaId, cpuSeconds: 0, memoryMib: 0 };
    usage.cpuSeconds += ticks / ticksPerSecond;
    usage.memoryMib += residentKib / 1024;
    found.set(replicaId, usage);
  } catch {
    // It ended while it was being read.
  }
}
