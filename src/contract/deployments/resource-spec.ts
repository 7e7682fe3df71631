import { type Static, type TSchema, Type } from "typebox";
import { freeObject, mapOf, optional } from "../schema.ts";

const Name = Type.Object({ name: Type.String() });

const Volume = Type.Object(
  {
    name: optional(Type.String()),
    configMap: optional(freeObject()),
    secret: optional(freeObject()),
    emptyDir: optional(freeObject()),
    persistentVolumeClaim: optional(freeObject()),
    nfs: optional(freeObject()),
    projected: optional(freeObject()),
    downwardAPI: optional(freeObject()),
    csi: optional(freeObject()),
  },
  {
    $id: "Volume",
    description: "A Kubernetes volume with one source. Pods may have the fields that the Kubernetes guide lists.",
  },
);

const VolumeMount = Type.Object(
  {
    name: optional(Type.String()),
    mountPath: optional(Type.String()),
    subPath: optional(Type.String()),
    mountPropagation: optional(Type.String()),
    readOnly: optional(Type.Boolean()),
    subPathExpr: optional(Type.String()),
  },
  { $id: "VolumeMount" },
);

const EnvVar = Type.Object(
  { name: Type.String(), value: optional(Type.String()), valueFrom: optional(freeObject()) },
  { $id: "ContainerEnvVar" },
);

const Container = Type.Object(
  {
    name: Type.String(),
    image: Type.String(),
    imagePullPolicy: optional(Type.String()),
    command: optional(Type.Array(Type.String())),
    args: optional(Type.Array(Type.String())),
    workingDir: optional(Type.String()),
    env: optional(Type.Array(EnvVar)),
    envFrom: optional(Type.Array(freeObject())),
    resources: optional(
      Type.Object(
        { limits: optional(mapOf(Type.String())), requests: optional(mapOf(Type.String())) },
        { $id: "ContainerResources" },
      ),
    ),
    volumeMounts: optional(Type.Array(VolumeMount)),
    securityContext: optional(freeObject()),
    restartPolicy: optional(Type.String()),
  },
  {
    $id: "Container",
    description: "An extra container beside the agent server. It runs under the restricted Pod Security Standard.",
  },
);

/** CPU requests and limits of the original API (contract 2.4). A limit may be twice a request. */
const cpu = (of: string) =>
  optional(Type.Number({ minimum: 0.1, maximum: 8, uncappable: true }), `CPU ${of}, in cores, rounded to 0.1.`);
const cpuLimit = (of: string) =>
  optional(
    Type.Number({ minimum: 0.1, maximum: 16, uncappable: true }),
    `CPU limit ${of}, in cores, rounded to 0.1. Default: twice the request.`,
  );
const cores = (text: string) => optional(Type.Number({ minimum: 0.1 }), text);
const count = (text: string) => optional(Type.Integer(), text);

/** Fields that are stored and returned but have no effect. Older documents say not to use them. */
const unusedWorkload = <P extends string>(prefix: P) => {
  const text = "Accepted and ignored.";
  return {
    [`${prefix}_cpu`]: optional(Type.Number(), text),
    [`${prefix}_cpu_limit`]: optional(Type.Number(), text),
    [`${prefix}_memory_mb`]: count(text),
    [`${prefix}_memory_limit_mb`]: count(text),
    [`${prefix}_min_scale`]: count(text),
    [`${prefix}_max_scale`]: count(text),
  } as Record<`${P}_${"cpu" | "cpu_limit"}`, ReturnType<typeof cores>> &
    Record<`${P}_${"memory_mb" | "memory_limit_mb" | "min_scale" | "max_scale"}`, ReturnType<typeof count>>;
};

/** Resources that an `external_docker` deployment requests from its data plane (contract 2.4). Absent and null fields take the default. */
export const ResourceSpec = Type.Object(
  {
    min_scale: count("Minimum replicas, 0..100. Default 1. With 0 the deployment sleeps when nothing requests it."),
    max_scale: count("Maximum replicas, 1..100, not below min_scale. Default 1."),
    cpu: cpu("per replica (default 1)"),
    cpu_limit: cpuLimit("per replica"),
    memory_mb: count("Memory per replica, MiB. Default 2048."),
    memory_limit_mb: count("Memory limit per replica, MiB. Default: twice memory_mb."),
    workers: optional(
      Type.Boolean(),
      "Whether queue replicas execute the runs, in clusters. Default: whether a `queue_*` field is set.",
    ),
    queue_min_scale: count("Minimum queue replicas. Default: min_scale."),
    queue_max_scale: count("Maximum queue replicas. Default: max_scale."),
    queue_cpu: cpu("per queue replica (default: cpu)"),
    queue_cpu_limit: cpuLimit("per queue replica"),
    queue_memory_mb: count("Memory per queue replica, MiB. Default: memory_mb."),
    queue_memory_limit_mb: count("Memory limit per queue replica, MiB. Default: twice queue_memory_mb."),
    redis_cpu: cpu("of Redis"),
    redis_cpu_limit: cpuLimit("of Redis"),
    redis_memory_mb: count("Memory of Redis, MiB."),
    redis_memory_limit_mb: count("Memory limit of Redis, MiB. Default: redis_memory_mb."),
    core_cpu: cores("CPU of the core process, in cores."),
    core_cpu_limit: cores("CPU limit of the core process, in cores."),
    core_memory_mb: count("Memory of the core process, MiB."),
    core_memory_limit_mb: count("Memory limit of the core process, MiB."),
    ...unusedWorkload("orchestrator"),
    ...unusedWorkload("executor"),
    db_cpu: optional(Type.Number(), "CPU of the database, in cores."),
    db_cpu_limit: optional(Type.Number(), "CPU limit of the database, in cores. Default: twice db_cpu."),
    db_memory_mb: count("Memory of the database, MiB."),
    db_memory_limit_mb: count("Memory limit of the database, MiB. Default: twice db_memory_mb."),
    db_storage_gi: count("Disk of the database, GiB. Default 10."),
    db_max_connections: count("Maximum connections to the database. Default 100."),
    labels: optional(mapOf(Type.String()), "Kubernetes labels of the workload."),
    annotations: optional(mapOf(Type.String()), "Kubernetes annotations of the workload."),
    service_account_name: optional(Type.String(), "Must exist in the namespace. Pods get no token of it."),
    image_pull_secrets: optional(Type.Array(Name), "Kubernetes Secrets with credentials for the image registry."),
    volumes: optional(Type.Array(Volume)),
    volume_mounts: optional(Type.Array(VolumeMount)),
    init_containers: optional(Type.Array(Container)),
    sidecars: optional(Type.Array(Container)),
  },
  {
    $id: "ResourceSpec",
    description: "Resources of an `external_docker` deployment. The operator can lift the CPU bounds.",
  },
);
export type ResourceSpec = Static<typeof ResourceSpec>;

/**
 * Returns a copy of a schema without the CPU bounds of {@link ResourceSpec}, for installations whose operator lifts them
 * (contract 8.1). Values are checked before rounding, so 0.04 is refused while the bounds apply.
 */
export function withoutCpuBounds<S extends TSchema>(schema: S): S {
  return JSON.parse(JSON.stringify(schema), (_key, value) => {
    if (value?.uncappable !== true) return value;
    const { minimum: _minimum, maximum: _maximum, ...rest } = value;
    return rest;
  });
}
