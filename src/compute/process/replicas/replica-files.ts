import { createHash, randomUUID } from "node:crypto";
import { readdir, realpath, rename, rm } from "node:fs/promises";
import path from "node:path";
import type { StartPlan } from "../../../contract/listeners/assignment.ts";
import type { ReplicaSpec } from "../../compute.ts";
import type { ProcessIdentity } from "../system/processes.ts";

/**
 * What one replica leaves on disk, so that a server started later knows it again:
 *
 *     <data dir>/replicas/<replica id>/
 *         replica.json    what was started, written before any code of the agent runs
 *         ready.json      where it answers, written once
 *         stopping.json   it was asked to end, written once
 *         exit.json       how it ended, written once
 *         launch.json     what the host shim needs to know (LangGraph only)
 *         report.json     what the host shim tells (LangGraph only)
 *         view/           working directory: links to the artifact (Python only)
 *         exit-code       left by the host shim, for a server that was not its parent
 *         stdout*.log stderr*.log tmp/
 *     <data dir>/state/<deployment id>/     kept between revisions
 */
export interface ReplicaFiles {
  directory: string;
  record: string;
  ready: string;
  stopping: string;
  exit: string;
  launch: string;
  report: string;
  exitCode: string;
  view: string;
  tmp: string;
}

/** Never holds the environment: it has secrets. */
export interface ReplicaRecord {
  replicaId: string;
  deploymentId: string;
  revisionId: string;
  runner: StartPlan["runner"];
  healthPath: string;
  /** ISO 8601. */
  startedAt: string;
  startTimeoutMs: number;
  memoryLimitMib: number;
  process: ProcessIdentity;
  /** Chosen by the driver; null: the replica chooses and reports it. */
  port: number | null;
  /** Proves that a report is of this start. */
  nonce: string;
  cgroups: string[];
  limits: { memory: string; cpu: string };
}

type Found = Pick<ReplicaRecord, "runner" | "healthPath" | "cgroups" | "limits">;

/** The record of a replica that has no process yet. */
export function newRecord(spec: ReplicaSpec, { runner, healthPath, cgroups, limits }: Found): ReplicaRecord {
  const heapOnly = runner === "langgraph-js" && limits.memory !== "enforced";
  return {
    replicaId: spec.replicaId,
    deploymentId: spec.deploymentId,
    revisionId: spec.revisionId,
    runner,
    healthPath,
    startedAt: new Date().toISOString(),
    startTimeoutMs: spec.startTimeoutMs,
    memoryLimitMib: spec.memoryLimitMib,
    process: { pid: 0, startedAt: "" },
    port: null,
    nonce: randomUUID(),
    cgroups,
    limits: heapOnly
      ? { ...limits, memory: `enforced for the JavaScript heap only; the rest is ${limits.memory}` }
      : limits,
  };
}

export interface ReadyRecord {
  host: string;
  port: number;
  serverVersion: string | null;
}

/** What every host shim is told. */
export interface ShimOptions {
  stateDir: string;
  /** Port 0: any free one, which the report names. */
  listen: { host: string; port: number };
  /** null: nobody reads one. */
  reportFile: string | null;
  exitCodeFile: string | null;
  nonce: string;
  drainTimeoutMs: number;
}

/** Written by the host shim once its server listens. */
export interface ShimReport {
  pid: number;
  port: number;
  nonce: string;
  serverVersion: string | null;
  /** Path that answers 200 without credentials; null: none does, so any answer counts. */
  healthPath: string | null;
}

export const replicasDirectory = (dataDir: string) => path.join(dataDir, "replicas");

/** Ids become directory names. @throws Error for one that could leave its directory. */
export function checkId(id: string): string {
  if (!idPattern.test(id)) throw new Error(`'${id}' cannot be the name of a directory`);
  return id;
}

const idPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

export function stateDirectory(dataDir: string, deploymentId: string): string {
  return path.join(dataDir, "state", checkId(deploymentId));
}

export function replicaFiles(dataDir: string, replicaId: string): ReplicaFiles {
  const directory = path.join(replicasDirectory(dataDir), checkId(replicaId));
  const file = (name: string) => path.join(directory, name);
  return {
    directory,
    record: file("replica.json"),
    ready: file("ready.json"),
    stopping: file("stopping.json"),
    exit: file("exit.json"),
    launch: file("launch.json"),
    report: file("report.json"),
    exitCode: file("exit-code"),
    view: file("view"),
    tmp: file("tmp"),
  };
}

/** Short name of a data directory that processes and cgroups carry. */
export async function dataDirIdOf(dataDir: string): Promise<string> {
  return createHash("sha256")
    .update(await realpath(dataDir))
    .digest("hex")
    .slice(0, 12);
}

/** Forgets a replica in one step, whatever happens while its files are being deleted. */
export async function removeReplicaFiles(files: ReplicaFiles): Promise<void> {
  const doomed = path.join(path.dirname(files.directory), `.removed-${path.basename(files.directory)}`);
  await rm(doomed, { recursive: true, force: true });
  await rename(files.directory, doomed).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
  await rm(doomed, { recursive: true, force: true });
}

/** Ids of all replicas that have a directory; finishes removals that were cut off. What is not ours stays. */
export async function listReplicaIds(dataDir: string): Promise<string[]> {
  const names = await readdir(replicasDirectory(dataDir));
  const doomed = names.filter((name) => name.startsWith(".removed-"));
  for (const name of doomed) await rm(path.join(replicasDirectory(dataDir), name), { recursive: true, force: true });
  return names.filter((name) => idPattern.test(name));
}
