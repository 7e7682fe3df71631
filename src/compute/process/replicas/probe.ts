import { checkHealth, describeHealthy, getFromLoopback, readServerVersion } from "../../health.ts";
import { readJson } from "../../json-file.ts";
import { findPortOwner, findReplicaPorts, type ReplicaProcesses } from "../system/processes.ts";
import type { ReadyRecord, ReplicaFiles, ReplicaRecord, ShimReport } from "./replica-files.ts";

/**
 * Probes a replica once. An answer counts only when this very replica gave it: a host shim proves its identity by pid and
 * nonce in its report, any other server by owning the socket that listens on the port.
 * @returns its address; `foreign` when another program has its port; `silent` when it does not answer yet; the status of an
 *   answer that is not healthy
 */
export async function probe(
  record: ReplicaRecord,
  files: ReplicaFiles,
  processes: ReplicaProcesses,
): Promise<ReadyRecord | "foreign" | "silent" | number> {
  return record.runner === "command" ? probePort(record, processes) : probeReported(record, files);
}

async function probeReported(record: ReplicaRecord, files: ReplicaFiles): Promise<ReadyRecord | "silent" | number> {
  const report = await readJson<ShimReport>(files.report).catch(() => undefined); // the agent can write to this file
  if (report?.pid !== record.process.pid || report.nonce !== record.nonce) return "silent";
  const { port, serverVersion, healthPath } = report;
  const answer = await getFromLoopback(port, healthPath ?? "/");
  const isHealthy = answer !== undefined && (healthPath === null || answer.status === 200);
  return isHealthy ? { host: "127.0.0.1", port, serverVersion } : (answer?.status ?? "silent");
}

async function probePort(
  record: ReplicaRecord,
  processes: ReplicaProcesses,
): Promise<ReadyRecord | "foreign" | "silent" | number> {
  const { port, healthPath, startedAt } = record;
  if (port === null) return "silent";
  const { healthy, status } = await checkHealth(port, healthPath);
  if (healthy === null && status === null) {
    const forMs = Date.now() - Date.parse(startedAt);
    const { ownPortMs, anyAnswerMs } = otherPortDelays(record);
    return forMs > ownPortMs ? probeOtherPorts(record, processes, forMs > anyAnswerMs) : "silent";
  }
  const [owner, serverVersion] = await Promise.all([
    findPortOwner(port, processes),
    healthy === null ? null : readServerVersion(port),
  ]);
  if (owner !== "replica") return owner === "foreign" ? "foreign" : "silent";
  if (healthy === null) return status ?? "silent";
  const note = healthPath === "" ? { healthNote: describeHealthy(healthy, port) } : {};
  return { host: "127.0.0.1", port, serverVersion, ...note };
}

/**
 * Returns when the probe also tries the other ports of a server that does not answer on the chosen one, and when any
 * answer there counts. Until `ownPortMs` the server may still be loading, and its metrics port could be taken for it.
 * After `anyAnswerMs` any status counts, because agent servers often have no page at all. A build that found no PORT in
 * the source makes the server exclusive, so a port of its own is likely and both times are shorter.
 */
function otherPortDelays({ isExclusive, startTimeoutMs }: ReplicaRecord): { ownPortMs: number; anyAnswerMs: number } {
  const [ownPortMs, anyAnswerMs] = [startTimeoutMs / 10, (startTimeoutMs * 15) / 100];
  if (isExclusive !== true) return { ownPortMs, anyAnswerMs };
  return { ownPortMs: Math.min(ownPortMs, 3_000), anyAnswerMs: Math.min(anyAnswerMs, 10_000) };
}

/** Looks for a server that ignores PORT and listens on a port of its own. */
async function probeOtherPorts(
  { port: chosen, healthPath }: ReplicaRecord,
  processes: ReplicaProcesses,
  acceptsAnyAnswer: boolean,
): Promise<ReadyRecord | "silent"> {
  for (const port of await findReplicaPorts(processes)) {
    if (port === chosen) continue;
    const { healthy } = await checkHealth(port, healthPath);
    if (healthy === null || (healthy.path === null && !acceptsAnyAnswer)) continue;
    // A debugger or a port for metrics answers too, while the server itself still loads.
    if (await isForTools(port, healthy.path ?? "/")) continue;
    // The port may have changed hands since it was found.
    if ((await findPortOwner(port, processes)) !== "replica") continue;
    const healthNote = `pierhead: healthy: the server ignores PORT and answers on its own port ${port}. Only one replica can listen there, so the next revision cannot start beside this one: listen on PORT, or set "state": "exclusive" in pierhead.json.`;
    return { host: "127.0.0.1", port, serverVersion: await readServerVersion(port), healthNote };
  }
  return "silent";
}

/** Whether a port answers as the client libraries of Prometheus do, which answer every path, or as the debugger of Node does. */
const isForTools = async (port: number, path: string) =>
  /^# (HELP|TYPE) |^WebSockets request was expected/m.test((await getFromLoopback(port, path))?.body ?? "");
