import { describeError, type Logger } from "../../../telemetry/log.ts";
import type { ReplicaLoad } from "../../compute.ts";
import { type ApiServer, KubeError } from "../api/api-server.ts";
import type { Manifest } from "../api/manifest.ts";
import type { ClusterTraits } from "../cluster-context.ts";
import { componentLabel } from "../render/names.ts";
import { managedText } from "../render/render.ts";

/** https://kubernetes.io/docs/reference/external-api/metrics.v1beta1/ */
interface PodMetrics extends Manifest {
  containers: { usage: { cpu: string; memory: string } }[];
}

/** Selects agents only: the usage of databases does not count. */
const labelSelector = `${managedText},${componentLabel} in (server,queue)`;

const bytesPerMib = 1_048_576;

/** Reads the usage of pods, where the cluster measures it (`metrics.k8s.io`, for example by metrics-server). */
export class UsageReader {
  readonly #api: ApiServer;
  readonly #namespaces: string[];
  readonly #logger: Logger;
  /** Why the last reading failed; null: it succeeded; undefined: there was none yet. */
  #problem: string | null | undefined;

  constructor({ api, namespaces, logger }: { api: ApiServer; namespaces: string[]; logger: Logger }) {
    this.#api = api;
    this.#namespaces = namespaces;
    this.#logger = logger;
  }

  /** Returns the loads; null when nothing is measured or reading fails. Logs the first failure and never throws for it. */
  async read({ hasMetrics }: ClusterTraits, signal: AbortSignal): Promise<ReplicaLoad[] | null> {
    if (!hasMetrics)
      return this.#reportUnavailable("the cluster serves no metrics.k8s.io: install metrics-server to see usage");
    try {
      const query = { labelSelector };
      const lists = await Promise.all(
        this.#namespaces.map((namespace) => this.#api.list<PodMetrics>("PodMetrics", namespace, query, signal)),
      );
      if (this.#problem != null) this.#logger.info("usage of replicas is measured");
      this.#problem = null;
      return lists.flatMap(({ items }) => items.flatMap(loadOf));
    } catch (error) {
      signal.throwIfAborted();
      const isForbidden = error instanceof KubeError && error.status === 403;
      return this.#reportUnavailable(
        isForbidden ? `the Role is from an older version, update it: ${error.message}` : describeError(error),
      );
    }
  }

  #reportUnavailable(problem: string): null {
    // Compares states, not texts, because the messages of an unreachable server differ each time.
    if (this.#problem == null) this.#logger.warn({ because: problem }, "usage of replicas is not measured");
    this.#problem = problem;
    return null;
  }
}

function loadOf({ metadata, containers }: PodMetrics): ReplicaLoad[] {
  const sum = (of: "cpu" | "memory") => containers.reduce((total, { usage }) => total + quantityOf(usage[of]), 0);
  const load = { replicaId: metadata.name, cpuCores: sum("cpu"), memoryMib: sum("memory") / bytesPerMib };
  return Number.isFinite(load.cpuCores + load.memoryMib) ? [load] : [];
}

const units: Record<string, number> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/**
 * Parses a Kubernetes quantity such as `250m`, `12345678n`, `1.5Gi`, `1e3`. Returns NaN for other texts.
 * https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
 */
export function quantityOf(text: string): number {
  const [, number, unit = ""] = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(text) ?? [];
  return Number(number) * (units[unit] ?? Number.NaN);
}
