import { hostname } from "node:os";
import { steadyClock, systemClock } from "../base/clock.ts";
import { ApiServer, findApiServer } from "../compute/kubernetes/api/api-server.ts";
import { Elector } from "../compute/kubernetes/api/lease.ts";
import { refuseSharedNamespace } from "../compute/kubernetes/api/service-account.ts";
import { buildPrograms, KubernetesBuilds } from "../compute/kubernetes/builds/kubernetes-builds.ts";
import type { BuildPolicy } from "../compute/kubernetes/builds/render-build.ts";
import type { ClusterPolicy } from "../compute/kubernetes/cluster-context.ts";
import { openKubernetesCluster } from "../compute/kubernetes/kubernetes-cluster.ts";
import { ClusterPrograms } from "../compute/kubernetes/programs/cluster-programs.ts";
import { clusterFleet } from "../listener/clusters/cluster-fleet.ts";
import { type ClusterTraffic, GatewayTraffic } from "../listener/clusters/gateway-traffic.ts";
import { createListener, type Listener, type ListenerOptions } from "../listener/listener.ts";
import type { OpenUpgrade } from "../listener/tunnels/tunnel-server.ts";
import { describeError, type Logger } from "../telemetry/log.ts";
import { httpIsReached, httpIsRouted, httpReadGateways } from "./cluster-gateway.ts";
import type { ListenerConfig } from "./listener-config.ts";

export interface ClusterReplica {
  /** True when this replica leads and has all assignments, and when it is on standby. */
  isReady(): boolean;
  stop(): Promise<void>;
}

/**
 * Starts one replica of a cluster's listener. It waits for the lease and acts while it holds it.
 * @throws Error when its own account is in a namespace of agents.
 */
export async function startClusterReplica(
  config: ListenerConfig,
  common: Pick<ListenerOptions, "client" | "logger" | "traces" | "version" | "logCursorsPath">,
  open: OpenUpgrade,
): Promise<ClusterReplica> {
  const { logger } = common;
  const address = await findApiServer(
    { host: config.kubernetesHost, port: config.kubernetesPort },
    { url: config.kubernetesUrl, tokenFile: config.kubernetesTokenFile, caFile: config.kubernetesCaFile },
  );
  const namespaces = listOf(config.kubernetesNamespaces);
  refuseSharedNamespace(await address.token(), namespaces);
  const lease = { namespace: namespaces[0] as string, name: config.kubernetesLease };
  let leading: Listener | null = null;
  const lead = async (signal: AbortSignal) => {
    const api = new ApiServer(address);
    try {
      const { agentGateway } = config;
      const gateways = listOf(agentGateway ?? "");
      const isRouted = agentGateway === undefined ? undefined : httpIsRouted(gateways);
      // Only a pod of the cluster is sure to reach its Services.
      const isInside = config.kubernetesHost !== undefined && config.kubernetesUrl === undefined;
      const isReached = isInside ? httpIsReached(gateways) : undefined;
      // Without an external URL, agents are reachable only inside the cluster.
      const namespace = namespaces.length > 1 ? `{namespace:${lease.namespace}}` : lease.namespace;
      const agentsUrl = config.agentsUrl ?? `http://{slug}.${namespace}.svc:8000`;
      const policies = { policy: policyOf(config, agentsUrl), isRouted, isReached };
      const cluster = await openKubernetesCluster({ api, namespaces, ...policies, logger });
      // One id per lease: the lease admits one replica at a time, so the control plane need not wait for the previous session
      // to expire. A listener with the same key in another cluster has another lease, and waits.
      const instanceId = elector.uid;
      const policy = buildPolicyOf(config);
      const facts = {
        agents_url: agentsUrl,
        ...(policy && { image_registry: policy.registry }),
      };
      const builds = policy && { builds: new KubernetesBuilds(api, policy), controlPlaneUrl: config.url };
      const tunnels = { open, targets: new ClusterPrograms(api, namespaces) };
      const listener = createListener(
        { ...common, instanceId, facts, tunnels, ...(builds && { builds }) },
        clusterFleet({ cluster, ...trafficOf(config, logger) }),
      );
      leading = listener;
      listener.start();
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      leading = null;
      await listener.stop();
      await cluster.close();
    } catch (error) {
      logger.error({ error: describeError(error) }, "replica cannot lead");
    }
  };
  const stopping = new AbortController();
  const electing = new ApiServer(address);
  const elector = new Elector(electing, { ...lease, holder: `${hostname()}-${process.pid}` }, { logger });
  const ended = elector.run(lead, stopping.signal);
  return {
    isReady() {
      const health = leading?.health();
      return health === undefined || health.isListed || health.isDrained;
    },
    async stop() {
      stopping.abort(new Error("the listener stops"));
      await ended;
      electing.close();
    },
  };
}

/** Returns the requests that pass the gateway in the cluster, if there is one. */
function trafficOf({ agentGateway }: ListenerConfig, logger: Logger): { traffic?: ClusterTraffic } {
  if (agentGateway === undefined) return {};
  const read = httpReadGateways(listOf(agentGateway));
  return { traffic: new GatewayTraffic({ read, clock: steadyClock(systemClock), logger }) };
}

/** Returns how this listener builds images; null: it builds none. */
function buildPolicyOf(config: ListenerConfig): BuildPolicy | null {
  const { buildRegistry: registry, buildPushImage: pushImage } = config;
  if (registry === undefined || pushImage === undefined) return null;
  return {
    namespace: config.buildNamespace,
    registry,
    isInsecure: config.buildRegistryInsecure,
    registrySecret: config.buildRegistrySecret ?? null,
    builderImage: config.buildImage,
    pushImage,
    programs: buildPrograms,
    hasCache: config.buildCache,
    memoryMib: config.buildPodMemoryMib,
    cpuCores: config.buildPodCpuCores,
    nodeSelector: config.buildNodeSelector,
    tolerations: config.buildTolerations,
  };
}

function policyOf(config: ListenerConfig, agentsUrl: string): ClusterPolicy {
  const [namespace, name] = (config.kubernetesGateway ?? "").split("/");
  return {
    gateway: namespace && name ? { namespace, name } : null,
    hasAgentGateway: config.agentGateway !== undefined,
    agentGatewayHosts: listOf(config.agentGatewayHosts ?? ""),
    agentsUrl,
    ownHosts: [new URL(config.url).hostname],
    ingressClass: config.kubernetesIngressClass ?? null,
    routeAnnotations: config.routeAnnotations,
    imagePullSecrets: listOf(config.kubernetesPullSecrets),
    builtImages: pullNameOf(config),
    allowsRoot: config.allowRoot,
    allowsPrivileged: config.allowPrivileged,
    allowsNetworkVolumes: config.allowNetworkVolumes,
    agentUser: config.agentUser,
    postgresImage: config.postgresImage,
    postgresUser: config.postgresUser,
    redisImage: config.redisImage,
    dataPolicy: config.dataPolicy,
    snapshotClass: config.snapshotClass ?? null,
  };
}

function pullNameOf({ buildRegistry, buildPullRegistry }: ListenerConfig): ClusterPolicy["builtImages"] {
  if (buildRegistry === undefined || buildPullRegistry === undefined) return null;
  return { pushedTo: buildRegistry, pulledFrom: buildPullRegistry };
}

const listOf = (text: string) =>
  text
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");
