import type { Engine } from "../../../contract/listeners/assignment.ts";
import type { ClusterRun, ClusterSizes } from "../../../contract/listeners/cluster.ts";
import type { Manifest } from "../api/manifest.ts";
import type { ClusterPolicy } from "../cluster-context.ts";
import type { DatabaseMode, Workload } from "../workload.ts";
import { annotationsOf, cpu, labelsOf, memory, revisionAnnotation, secretNameOf, selectorOf } from "./names.ts";
import { agentPodSecurity, agentSecurity, securedContainer } from "./render-security.ts";

export const agentPort = 8000;

/** Endpoints learn of a pod's termination late, so it keeps serving for this time after its termination began. */
const preStopS = 5;

/** Time for a queue worker to finish its run; new runs go to other workers. */
const queueGraceS = 180;

const probePeriodS = 5;

/** Startup is probed more often, because callers of a sleeping deployment wait for it. */
const startupPeriodS = 1;

/** A replica counts as available after it has been ready for this time. */
const minReadySeconds = 5;

type ContainerSizes = Pick<ClusterSizes, "cpuCores" | "cpuLimitCores" | "memoryMib" | "memoryLimitMib">;

/**
 * Cores that a container reserves when nothing sets its size. The default size of one core is a limit for planning:
 * reserved for server, database and Redis, no default deployment could be replaced on a node of two cores. It does not apply
 * under an autoscaler, which measures the load against the request.
 */
const unnamedCpuCores = 0.25;

/** @param isNamed whether the deployment sets the cores itself */
export const resourcesOf = (sizes: ContainerSizes, isNamed: boolean) => ({
  requests: {
    cpu: cpu(isNamed || sizes.cpuCores > 1 ? sizes.cpuCores : Math.min(sizes.cpuCores, unnamedCpuCores)),
    memory: memory(sizes.memoryMib),
  },
  limits: { cpu: cpu(sizes.cpuLimitCores), memory: memory(sizes.memoryLimitMib) },
});

export interface PodsContext {
  policy: ClusterPolicy;
  database: DatabaseMode;
  hasRedis: boolean;
  hasQueue: boolean;
}

/** Renders the Deployment of the agent server or of its queue workers: the same image with another task. */
export function renderDeployment(workload: Workload, part: "server" | "queue", context: PodsContext): Manifest {
  const { slug, deploymentId, cluster, startTimeoutMs, startsAlone } = workload;
  const labels = labelsOf(workload, part);
  const annotated = annotationsOf(workload);
  const graceS = part === "queue" ? queueGraceS : Math.ceil(workload.drainTimeoutMs / 1_000) + preStopS;
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: nameOf(slug, part), namespace: cluster.namespace as string, labels, ...annotated },
    spec: {
      revisionHistoryLimit: 10,
      minReadySeconds,
      progressDeadlineSeconds: Math.max(2 * minReadySeconds, Math.ceil(startTimeoutMs / 1_000)),
      selector: { matchLabels: selectorOf(deploymentId, part) },
      strategy: {
        type: "RollingUpdate",
        rollingUpdate: { maxSurge: startsAlone === true ? 1 : "25%", maxUnavailable: 0 },
      },
      template: {
        metadata: { labels, annotations: { ...annotated.annotations, [revisionAnnotation]: workload.revisionId } },
        spec: {
          ...podSpec(workload, part, context),
          terminationGracePeriodSeconds: graceS,
          topologySpreadConstraints: [
            {
              maxSkew: 1,
              topologyKey: "kubernetes.io/hostname",
              whenUnsatisfiable: "ScheduleAnyway",
              labelSelector: { matchLabels: selectorOf(deploymentId, part) },
            },
          ],
        },
      },
    },
  };
}

export const nameOf = (slug: string, part: "server" | "queue") => (part === "server" ? slug : `${slug}-queue`);

function podSpec(workload: Workload, part: "server" | "queue", context: PodsContext): object {
  const { cluster, slug } = workload;
  const { spec } = cluster;
  const pullSecrets = new Set([
    ...(spec.image_pull_secrets ?? []).map(({ name }) => name),
    ...context.policy.imagePullSecrets,
  ]);
  const secured = (containers: NonNullable<typeof spec.sidecars>) =>
    (withoutNulls(containers) as typeof containers).map((one) => securedContainer(one, context.policy));
  return {
    serviceAccountName: spec.service_account_name ?? slug,
    // An account identifies the pod to a cloud or a registry. A token for this cluster's API is nothing that agents need.
    automountServiceAccountToken: false,
    securityContext: agentPodSecurity(context.policy),
    enableServiceLinks: false,
    ...(pullSecrets.size > 0 && { imagePullSecrets: [...pullSecrets].map((name) => ({ name })) }),
    ...(spec.volumes != null && { volumes: withoutNulls(spec.volumes) }),
    ...(spec.init_containers != null && { initContainers: secured(spec.init_containers) }),
    containers: [
      mainContainer(workload, part, context),
      ...coreContainer(workload, context.policy),
      ...secured(spec.sidecars ?? []),
    ],
  };
}

function mainContainer(workload: Workload, part: "server" | "queue", context: PodsContext): object {
  const { cluster, healthPath, startTimeoutMs } = workload;
  const image = pullName(workload.image, context.policy);
  const port = { name: "http", containerPort: agentPort, protocol: "TCP" };
  const check = healthPath === "" ? { tcpSocket: { port: "http" } } : { httpGet: { path: healthPath, port: "http" } };
  const failureThreshold = Math.max(30, Math.ceil(startTimeoutMs / 1_000 / startupPeriodS));
  const isServer = part === "server";
  const isSameProgram = sharesQueue(workload.engine);
  const scale = isServer ? cluster.sizes : cluster.sizes.queue;
  const cores = isServer ? cluster.spec.cpu : (cluster.spec.queue_cpu ?? cluster.spec.cpu);
  return {
    name: isServer ? "api-server" : "queue",
    image,
    imagePullPolicy: image.includes("@sha256:") ? "IfNotPresent" : "Always",
    ...(!isServer && !isSameProgram && { command: ["/storage/queue_entrypoint.sh"] }),
    ports: [port],
    envFrom: [{ secretRef: { name: secretNameOf(workload) } }],
    env: environmentOf(workload, part, context),
    resources: resourcesOf(scale, scale.maxReplicas > scale.minReplicas || cores != null),
    securityContext: agentSecurity(context.policy),
    ...(cluster.spec.volume_mounts != null && { volumeMounts: withoutNulls(cluster.spec.volume_mounts) }),
    ...((isServer || isSameProgram) && {
      startupProbe: { ...check, periodSeconds: startupPeriodS, timeoutSeconds: 2, failureThreshold },
      readinessProbe: { ...check, periodSeconds: probePeriodS, timeoutSeconds: 5, failureThreshold: 3 },
      livenessProbe: { ...check, periodSeconds: 15, timeoutSeconds: 5, failureThreshold: 6 },
    }),
    ...(isServer && { lifecycle: { preStop: { sleep: { seconds: preStopS } } } }),
  };
}

/** Returns the name by which nodes pull an image. Builds push to a name that may exist only inside the cluster's pods. */
function pullName(image: string, { builtImages }: ClusterPolicy): string {
  if (builtImages === null) return image;
  const { pushedTo, pulledFrom } = builtImages;
  const rest = image.slice(pushedTo.length);
  return image.startsWith(pushedTo) && /^[@:]/.test(rest) ? `${pulledFrom}${rest}` : image;
}

/**
 * `core_*` sizes the persistence process of the original's images, where it is a container of its own. Such an image names
 * its command in the environment. For other images the sizes are stored but have no effect.
 */
function coreContainer({ cluster, image: imageName, env, secrets }: Workload, policy: ClusterPolicy): object[] {
  const { core_cpu, core_cpu_limit, core_memory_mb, core_memory_limit_mb } = cluster.spec;
  const command = env["PIERHEAD_CORE_COMMAND"] ?? secrets["PIERHEAD_CORE_COMMAND"];
  if (command === undefined) return [];
  const cpuCores = core_cpu ?? 0.5;
  const memoryMib = core_memory_mb ?? 512;
  const sizes = {
    cpuCores,
    cpuLimitCores: core_cpu_limit ?? 2 * cpuCores,
    memoryMib,
    memoryLimitMib: core_memory_limit_mb ?? 2 * memoryMib,
  };
  const securityContext = agentSecurity(policy);
  const image = pullName(imageName, policy);
  return [{ name: "core", image, command: command.split(" "), resources: resourcesOf(sizes, true), securityContext }];
}

/** Lists each variable once, because a list with duplicates cannot be applied. Variables of the control plane win. */
function environmentOf(workload: Workload, part: "server" | "queue", context: PodsContext): object[] {
  const { slug, cluster, env } = workload;
  const entries = new Map<string, object>();
  const refer = (name: string, secret: string, key: string) =>
    entries.set(name, { name, valueFrom: { secretKeyRef: { name: secret, key } } });
  if (context.database !== "external") {
    const secret = context.database === "cnpg" ? `${slug}-postgres-app` : `${slug}-postgres`;
    const isAsked = workload.asksForDatabase === true && !("DATABASE_URL" in workload.secrets);
    for (const name of ["DATABASE_URI", "POSTGRES_URI", ...(isAsked ? ["DATABASE_URL"] : [])])
      refer(name, secret, "uri");
  }
  if (context.hasRedis) refer("REDIS_URI", `${slug}-redis`, "uri");
  for (const one of cluster.secret_references) refer(one.name, one.secret_name, one.secret_key);
  const jobs = jobsPerWorker(workload, part, context);
  for (const [name, value] of Object.entries({ ...jobs, ...env, PORT: String(agentPort) })) {
    entries.set(name, { name, value: literal(value) });
  }
  return [...entries.values()];
}

/** Escapes `$`, because a kubelet expands `$(NAME)` and reads `$$` as `$`. */
const literal = (value: string) => value.replaceAll("$", "$$$$");

/** With separate workers the server executes no runs itself. The deployment may set how many runs a worker executes. */
function jobsPerWorker({ secrets }: Workload, part: "server" | "queue", { hasQueue }: PodsContext): object {
  if (!hasQueue || (part === "queue" && "N_JOBS_PER_WORKER" in secrets)) return {};
  return { N_JOBS_PER_WORKER: part === "server" ? "0" : "10" };
}

/** Drops nulls: they mean absent in our API but are values in Kubernetes. */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([, inner]) => inner !== null && inner !== undefined);
  return Object.fromEntries(kept.map(([key, inner]) => [key, withoutNulls(inner)]));
}

/** Returns whether replicas find their runs in a database, so that a worker is the same program with another number of runs. */
const sharesQueue = (engine: Engine | undefined) => engine === "postgres" || engine === "aegra";

/**
 * Returns whether a deployment has workers, which it has only when it sizes them, because its image may have no entry point for them.
 * Servers that keep their runs in files or in memory cannot share them with workers.
 */
export const wantsQueue = ({ spec }: ClusterRun, engine: Engine | undefined): boolean =>
  engine !== "file" &&
  engine !== "memory" &&
  Object.entries(spec).some(([field, value]) => field.startsWith("queue_") && value != null);
