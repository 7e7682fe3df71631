import { hostname } from "node:os";
import { ApiServer, findApiServer } from "../compute/kubernetes/api/api-server.ts";
import { Elector } from "../compute/kubernetes/api/lease.ts";
import type { ClusterPolicy } from "../compute/kubernetes/cluster-context.ts";
import { openKubernetesCluster } from "../compute/kubernetes/kubernetes-cluster.ts";
import { clusterFleet } from "../listener/clusters/cluster-fleet.ts";
import { createListener, type Listener, type ListenerOptions } from "../listener/listener.ts";
import { describeError } from "../telemetry/log.ts";
import type { ListenerConfig } from "./listener-config.ts";

export interface ClusterReplica {
  /** Leads and has been told everything, or stands by. */
  isReady(): boolean;
  stop(): Promise<void>;
}

/** One of the replicas of a cluster's listener: waits for the lease, acts while it has it. */
export async function startClusterReplica(
  config: ListenerConfig,
  common: Pick<ListenerOptions, "client" | "logger" | "traces" | "version" | "logCursorsPath">,
): Promise<ClusterReplica> {
  const { logger } = common;
  const address = await findApiServer(
    { host: config.kubernetesHost, port: config.kubernetesPort },
    { url: config.kubernetesUrl, tokenFile: config.kubernetesTokenFile, caFile: config.kubernetesCaFile },
  );
  const namespaces = listOf(config.kubernetesNamespaces);
  const lease = { namespace: namespaces[0] as string, name: config.kubernetesLease };
  let leading: Listener | null = null;
  const lead = async (signal: AbortSignal) => {
    const api = new ApiServer(address);
    try {
      const cluster = await openKubernetesCluster({ api, namespaces, policy: policyOf(config), logger });
      // The lease lets in one at a time; the control plane need not wait for the session of the one before. Whoever has
      // the same key in another cluster has another lease, and waits.
      const instanceId = elector.uid;
      // Without a way in from outside they answer inside the cluster.
      const namespace = namespaces.length > 1 ? `{namespace:${lease.namespace}}` : lease.namespace;
      const facts = { agents_url: config.agentsUrl ?? `http://{slug}.${namespace}.svc:8000` };
      const listener = createListener({ ...common, instanceId, facts }, clusterFleet({ cluster }));
      leading = listener;
      listener.start();
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      leading = null;
      await listener.stop();
      await cluster.close();
    } catch (error) {
      logger.error({ error: describeError(error) }, "this instance cannot lead");
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

function policyOf(config: ListenerConfig): ClusterPolicy {
  const [namespace, name] = (config.kubernetesGateway ?? "").split("/");
  return {
    gateway: namespace && name ? { namespace, name } : null,
    ingressClass: config.kubernetesIngressClass ?? null,
    imagePullSecrets: listOf(config.kubernetesPullSecrets),
    allowsPrivileged: config.allowPrivileged,
    allowsNetworkVolumes: config.allowNetworkVolumes,
    postgresImage: config.postgresImage,
    redisImage: config.redisImage,
    dataPolicy: config.dataPolicy,
    snapshotClass: config.snapshotClass ?? null,
  };
}

const listOf = (text: string) =>
  text
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");
