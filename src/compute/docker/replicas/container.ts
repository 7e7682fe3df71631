import type { ReplicaSpec } from "../../compute.ts";

/** Labels on everything that we create in an engine. Objects without them are never touched. */
export const labels = {
  installation: "pierhead.dev/installation",
  replica: "pierhead.dev/replica",
  deployment: "pierhead.dev/deployment",
  revision: "pierhead.dev/revision",
  tenant: "pierhead.dev/tenant",
  /** On the network of a build: id of the build. */
  build: "pierhead.dev/build",
  /** Name of a service container that runs beside replicas, such as a database. */
  service: "pierhead.dev/service",
  /** On an image: `exclusive` when its server keeps state at `stateMount` that only one server may use at a time. */
  state: "pierhead.dev/state",
  /** JSON of `ReplicaFacts`. */
  facts: "pierhead.dev/facts",
} as const;

/** What a later driver must know about a replica in addition to its ids. */
export interface ReplicaFacts {
  /** ISO 8601, by the clock that the start deadline uses, too. */
  startedAt: string;
  startTimeoutMs: number;
  healthPath: string;
  memoryLimitMib: number;
  limits: { memory: string; cpu: string };
}

/** A replica as its labels describe it. */
export interface ReplicaRecord extends ReplicaFacts {
  replicaId: string;
  deploymentId: string;
  revisionId: string;
  tenantId: string;
}

/** Capabilities of the machine, from `GET /info`. */
export interface EngineInfo {
  NCPU: number;
  MemoryLimit: boolean;
  SwapLimit: boolean;
  CpuCfsQuota: boolean;
  PidsLimit: boolean;
  ServerVersion: string;
  OperatingSystem: string;
  DockerRootDir: string;
}

/** Port of every agent server. It is always the same, because each container has a network namespace of its own. */
export const agentPort = 8_000;

/** Directory for state that outlives a revision, in images whose servers keep state. */
export const stateMount = "/var/lib/agent";

/** A server with its worker threads has 30 processes, one that forks per request has hundreds, a fork bomb is unlimited. */
export const processesMax = 1_024;

/** Two files, as much as the process driver stores for a replica. */
const logFiles = { "max-size": "16m", "max-file": "2" };

const mib = 1024 * 1024;

export function recordOf(spec: ReplicaSpec, limits: ReplicaFacts["limits"]): ReplicaRecord {
  return {
    replicaId: spec.replicaId,
    deploymentId: spec.deploymentId,
    revisionId: spec.revisionId,
    tenantId: spec.tenantId,
    startedAt: new Date().toISOString(),
    startTimeoutMs: spec.startTimeoutMs,
    healthPath: spec.artifact.health_path,
    memoryLimitMib: spec.memoryLimitMib,
    limits,
  };
}

/** Reads a record from labels. @returns undefined for a container that is no replica, for example one of a build */
export function readRecord(given: Record<string, string>): ReplicaRecord | undefined {
  const [replicaId, deploymentId] = [given[labels.replica], given[labels.deployment]];
  const [revisionId, tenantId, facts] = [given[labels.revision], given[labels.tenant], given[labels.facts]];
  if (!replicaId || !deploymentId || !revisionId || !tenantId || !facts) return undefined;
  return { replicaId, deploymentId, revisionId, tenantId, ...(JSON.parse(facts) as ReplicaFacts) };
}

export function labelsOf(record: ReplicaRecord, installationId: string): Record<string, string> {
  const { replicaId, deploymentId, revisionId, tenantId, ...facts } = record;
  return {
    [labels.installation]: installationId,
    [labels.replica]: replicaId,
    [labels.deployment]: deploymentId,
    [labels.revision]: revisionId,
    [labels.tenant]: tenantId,
    [labels.facts]: JSON.stringify(facts),
  };
}

/** Describes which limits this machine enforces. */
export function limitsOf(spec: Pick<ReplicaSpec, "cpuLimitCores">, info: EngineInfo): ReplicaFacts["limits"] {
  const swap = info.SwapLimit ? "" : ", but swap is not limited: the kernel does not account for it";
  const cores = info.NCPU === 1 ? "1 core" : `${info.NCPU} cores`;
  const all = spec.cpuLimitCores > info.NCPU ? ` at ${cores}, which is all this machine has` : "";
  return {
    memory: info.MemoryLimit ? `enforced${swap}` : "not enforced: the engine has no memory cgroup",
    cpu: info.CpuCfsQuota ? `enforced${all}` : "not enforced: the kernel has no CPU quota",
  };
}

/**
 * Returns the body of `POST /containers/create`. A container gets a network, but no socket, device, directory, capability
 * or way to new privileges of the host. Memory, CPU, processes and log size are limited.
 */
export function containerBody(
  spec: ReplicaSpec,
  context: {
    image: string;
    network: string;
    /** Volume mounted at `stateMount`; null: no state is kept. */
    stateVolume: string | null;
    labels: Record<string, string>;
    info: EngineInfo;
    isRootReadOnly: boolean;
    /** Size limit of the container's own files in MiB, for an engine that enforces one; null: it does not. */
    layerLimitMib: number | null;
  },
): object {
  const { info } = context;
  const port = `${agentPort}/tcp`;
  return {
    Image: context.image,
    Labels: context.labels,
    Env: environmentOf(spec),
    ExposedPorts: { [port]: {} },
    // Pierhead runs its own health checks, and more often.
    Healthcheck: { Test: ["NONE"] },
    HostConfig: {
      // An init process that reaps orphaned children and lets SIGTERM end a server that does not handle it.
      Init: true,
      NetworkMode: context.network,
      // Any free port of the loopback interface, which the gateway reaches even if the engine runs in a virtual machine.
      PortBindings: { [port]: [{ HostIp: "127.0.0.1", HostPort: "" }] },
      ...hostLimits(spec, info),
      ReadonlyRootfs: context.isRootReadOnly,
      ...(context.isRootReadOnly ? { Tmpfs: { "/tmp": `rw,exec,nosuid,nodev,mode=1777,size=${tmpMib(spec)}m` } } : {}),
      ...(context.layerLimitMib === null ? {} : { StorageOpt: { size: `${context.layerLimitMib}m` } }),
      ...(context.stateVolume === null
        ? {}
        : {
            Mounts: [
              {
                Type: "volume",
                Source: context.stateVolume,
                Target: stateMount,
                VolumeOptions: { Labels: pick(context.labels, [labels.installation, labels.deployment]) },
              },
            ],
          }),
      RestartPolicy: { Name: "no" },
      ExtraHosts: ["host.docker.internal:host-gateway"],
    },
  };
}

/** Files in a tmpfs count against the memory limit. With half of it, a full /tmp gives an error instead of ending the agent. */
const tmpMib = ({ memoryLimitMib }: Pick<ReplicaSpec, "memoryLimitMib">) =>
  Math.max(16, Math.floor(memoryLimitMib / 2));

/** Returns the limits of every container of ours: memory, CPU, processes, log size, privileges. */
export function hostLimits(spec: Pick<ReplicaSpec, "memoryLimitMib" | "cpuLimitCores">, info: EngineInfo): object {
  const memory = spec.memoryLimitMib * mib;
  return {
    ...(info.MemoryLimit ? { Memory: memory } : {}),
    ...(info.MemoryLimit && info.SwapLimit ? { MemorySwap: memory } : {}),
    ...(info.CpuCfsQuota ? { NanoCpus: Math.round(Math.min(spec.cpuLimitCores, info.NCPU) * 1e9) } : {}),
    ...(info.PidsLimit ? { PidsLimit: processesMax } : {}),
    CapDrop: ["ALL"],
    SecurityOpt: ["no-new-privileges"],
    Privileged: false,
    IpcMode: "private",
    LogConfig: { Type: "json-file", Config: logFiles },
  };
}

/** `PIERHEAD_DRAIN_TIMEOUT_MS`: time to finish requests after SIGTERM. */
function environmentOf({ env, drainTimeoutMs }: ReplicaSpec): string[] {
  const own = { HOST: "0.0.0.0", PORT: agentPort, PIERHEAD_DRAIN_TIMEOUT_MS: drainTimeoutMs };
  return Object.entries({ ...env, ...own }).map(([name, value]) => `${name}=${value}`);
}

const pick = (given: Record<string, string>, names: string[]) =>
  Object.fromEntries(Object.entries(given).filter(([name]) => names.includes(name)));
