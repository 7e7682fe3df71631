import { createHash, randomUUID } from "node:crypto";
import { readdir, realpath, rename, rm } from "node:fs/promises";
import path from "node:path";
import type { StartPlan } from "../../../contract/listeners/assignment.ts";
import type { ReplicaSpec } from "../../compute.ts";
import type { ProcessIdentity } from "../system/processes.ts";

/**
 * Files of one replica, by which a server that starts later finds it:
 *
 *     <data dir>/replicas/<replica id>/
 *         replica.json    what was started, written before any agent code runs
 *         ready.json      address at which it became ready, written once
 *         stopping.json   it was asked to stop, written once
 *         exit.json       how it ended, written once
 *         launch.json     options for the host shim (LangGraph only)
 *         report.json     port and version, reported by the host shim (LangGraph only)
 *         view/           working directory: links to the artifact (Python only)
 *         exit-code       written by the host shim, for a server that is not its parent
 *         stdout*.log stderr*.log
 *     <data dir>/tmp/<digest of the replica id>/    for temporary files
 *     <data dir>/state/<deployment id>/     shared by all revisions
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

/** Record of a replica. Never contains the environment, because that has secrets. */
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
  /** Chosen by the driver; null: the replica chooses a port and reports it. */
  port: number | null;
  /** Proves that a report belongs to this start. */
  nonce: string;
  cgroups: string[];
  limits: { memory: string; cpu: string };
  /** Whether only one replica can run at a time, as with a server that listens on a port of its own. */
  isExclusive?: boolean;
  /** Names of variables that the project expects and the deployment does not set. */
  unsetVariables?: string[];
}

type Found = Pick<ReplicaRecord, "runner" | "healthPath" | "cgroups" | "limits">;

/** Variables that a replica gets in any case, or that change nothing but how much it says. */
const given = new Set(["PORT", "HOST", "PATH", "HOME", "NODE_ENV", "LOG_LEVEL"]);

/** Builds the record of a replica that has no process yet. */
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
    isExclusive: spec.artifact.rollout === "handover",
    memoryLimitMib: spec.memoryLimitMib,
    process: { pid: 0, startedAt: "" },
    port: null,
    nonce: randomUUID(),
    cgroups,
    unsetVariables: (spec.artifact.kind === "directory" ? (spec.artifact.variables ?? []) : []).filter(
      (name) => !(spec.env[name] ?? "") && !given.has(name),
    ),
    limits: heapOnly
      ? { ...limits, memory: `enforced for the JavaScript heap only; the rest is ${limits.memory}` }
      : limits,
  };
}

export interface ReadyRecord {
  host: string;
  port: number;
  serverVersion: string | null;
  /** How the server showed that it can serve, for its log; absent: its health path is known. */
  healthNote?: string;
}

/** Options of every host shim. */
export interface ShimOptions {
  stateDir: string;
  /** Port 0: any free port. The report contains the port that was chosen. */
  listen: { host: string; port: number };
  /** null: no report is needed. */
  reportFile: string | null;
  exitCodeFile: string | null;
  nonce: string;
  drainTimeoutMs: number;
}

/** Report that the host shim writes once its server listens. */
export interface ShimReport {
  pid: number;
  port: number;
  nonce: string;
  serverVersion: string | null;
  /** Path that answers 200 without credentials; null: there is none, so any answer counts as healthy. */
  healthPath: string | null;
}

export const replicasDirectory = (dataDir: string) => path.join(dataDir, "replicas");

/** Returns an id that is safe as a directory name. @throws Error for an id that could escape its directory. */
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
    tmp: path.join(temporaryDirectory(dataDir), temporaryName(replicaId)),
  };
}

const temporaryDirectory = (dataDir: string) => path.join(dataDir, "tmp");

/** Short, because programs create sockets there, whose path may have 107 bytes. Python's multiprocessing takes 32 of them. */
const temporaryName = (replicaId: string) => createHash("sha256").update(replicaId).digest("hex").slice(0, 12);

/** Returns the short id of a data directory. Processes and cgroups are marked with it. */
export async function dataDirIdOf(dataDir: string): Promise<string> {
  return createHash("sha256")
    .update(await realpath(dataDir))
    .digest("hex")
    .slice(0, 12);
}

/** Removes a replica atomically by a rename; an interrupted deletion is finished later. */
export async function removeReplicaFiles(files: ReplicaFiles): Promise<void> {
  const doomed = path.join(path.dirname(files.directory), `.removed-${path.basename(files.directory)}`);
  await rm(doomed, { recursive: true, force: true });
  await rm(files.tmp, { recursive: true, force: true });
  await rename(files.directory, doomed).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
  await rm(doomed, { recursive: true, force: true });
}

/** Returns the ids of all replicas that have a directory, and finishes interrupted removals. Ignores other files. */
export async function listReplicaIds(dataDir: string): Promise<string[]> {
  const names = await readdir(replicasDirectory(dataDir));
  const doomed = names.filter((name) => name.startsWith(".removed-"));
  for (const name of doomed) await rm(path.join(replicasDirectory(dataDir), name), { recursive: true, force: true });
  const ids = names.filter((name) => idPattern.test(name));
  const used = new Set(ids.map(temporaryName));
  for (const name of await readdir(temporaryDirectory(dataDir)).catch(() => []))
    if (!used.has(name)) await rm(path.join(temporaryDirectory(dataDir), name), { recursive: true, force: true });
  return ids;
}
