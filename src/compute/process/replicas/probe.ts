import { checkHealth, describeHealthy, getFromLoopback, readServerVersion } from "../../health.ts";
import { readJson } from "../../json-file.ts";
import { findPortOwner, type ReplicaProcesses } from "../system/processes.ts";
import type { ReadyRecord, ReplicaFiles, ReplicaRecord, ShimReport } from "./replica-files.ts";

/**
 * Probes a replica once. An answer counts only when this very replica gave it: a host shim proves its identity by pid and
 * nonce in its report, any other server by owning the socket that listens on the port.
 * @returns its address; `foreign` when another program has its port; `silent` when it is not healthy yet
 */
export async function probe(
  record: ReplicaRecord,
  files: ReplicaFiles,
  processes: ReplicaProcesses,
): Promise<ReadyRecord | "foreign" | "silent"> {
  return record.runner === "command" ? probePort(record, processes) : probeReported(record, files);
}

async function probeReported(record: ReplicaRecord, files: ReplicaFiles): Promise<ReadyRecord | "silent"> {
  const report = await readJson<ShimReport>(files.report).catch(() => undefined); // the agent can write to this file
  if (report?.pid !== record.process.pid || report.nonce !== record.nonce) return "silent";
  const { port, serverVersion, healthPath } = report;
  const answer = await getFromLoopback(port, healthPath ?? "/");
  const isHealthy = answer !== undefined && (healthPath === null || answer.status === 200);
  return isHealthy ? { host: "127.0.0.1", port, serverVersion } : "silent";
}

async function probePort(
  { port, healthPath }: ReplicaRecord,
  processes: ReplicaProcesses,
): Promise<ReadyRecord | "foreign" | "silent"> {
  if (port === null) return "silent";
  const { healthy, status } = await checkHealth(port, healthPath);
  if (healthy === null && status === null) return "silent";
  const [owner, serverVersion] = await Promise.all([
    findPortOwner(port, processes),
    healthy === null ? null : readServerVersion(port),
  ]);
  if (owner !== "replica") return owner === "foreign" ? "foreign" : "silent";
  if (healthy === null) return "silent";
  const note = healthPath === "" ? { healthNote: describeHealthy(healthy, port) } : {};
  return { host: "127.0.0.1", port, serverVersion, ...note };
}
