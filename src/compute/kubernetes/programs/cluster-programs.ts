import { type AgentConnection, type FoundReplica, missing } from "../../choose-replica.ts";
import { ExecRefused } from "../../compute.ts";
import type { ApiServer } from "../api/api-server.ts";
import { componentLabel } from "../render/names.ts";
import { selectorText } from "../render/render.ts";
import { agentPort } from "../render/render-pods.ts";
import type { PodView } from "../watch/rollout.ts";
import { connectToPod } from "./pod-connection.ts";
import { openPodExec } from "./pod-exec.ts";

/** Programs beside agents of a cluster, and connections to them, through its API server. */
export class ClusterPrograms {
  readonly #api: ApiServer;
  readonly #namespaces: readonly string[];

  constructor(api: ApiServer, namespaces: readonly string[]) {
    this.#api = api;
    this.#namespaces = namespaces;
  }

  /** @throws ExecRefused when no pod of the deployment runs, or not the wanted one */
  async findProgram(deploymentId: string, wanted: string | null, signal: AbortSignal): Promise<FoundReplica> {
    const { namespace, name, labels } = (await this.#find(deploymentId, wanted, signal)).metadata;
    const container = labels?.[componentLabel] === "queue" ? "queue" : "api-server";
    return {
      replicaId: name,
      start: (request) => openPodExec(this.#api, { namespace, name, container }, request),
    };
  }

  /** @throws ExecRefused when no pod of the deployment runs, or the cluster refuses the connection */
  async connect(
    { deployment_id: deploymentId }: { deployment_id: string },
    signal: AbortSignal,
  ): Promise<AgentConnection> {
    const { namespace, name } = (await this.#find(deploymentId, null, signal, ["server"])).metadata;
    return connectToPod(this.#api, { namespace, name, port: agentPort }, signal);
  }

  async #find(deploymentId: string, wanted: string | null, signal: AbortSignal, components = ["server", "queue"]) {
    const query = { labelSelector: selectorText(deploymentId) };
    const lists = this.#namespaces.map((one) => this.#api.list<PodView & Placed>("Pod", one, query, signal));
    const all = (await Promise.all(lists)).flatMap(({ items }) => items);
    const running = all.filter(({ metadata, status }) => {
      const isAgent = components.includes(metadata.labels?.[componentLabel] ?? "");
      return isAgent && metadata.deletionTimestamp === undefined && status.phase === "Running";
    });
    const newest = running.toSorted(byReadinessAndAge);
    const chosen = wanted === null ? newest[0] : newest.find(({ metadata }) => metadata.name === wanted);
    if (chosen === undefined) throw new ExecRefused(missing(wanted, deploymentId));
    return chosen;
  }
}

interface Placed {
  metadata: { namespace: string; deletionTimestamp?: string };
}

const isReady = ({ status }: PodView) =>
  status.conditions?.some(({ type, status: holds }) => type === "Ready" && holds === "True") === true;

/** Ready pods that serve come first, then the newest. */
function byReadinessAndAge(a: PodView, b: PodView): number {
  if (isReady(a) !== isReady(b)) return isReady(a) ? -1 : 1;
  const isServer = (pod: PodView) => pod.metadata.labels?.[componentLabel] === "server";
  if (isServer(a) !== isServer(b)) return isServer(a) ? -1 : 1;
  return (b.status.startTime ?? "").localeCompare(a.status.startTime ?? "");
}
