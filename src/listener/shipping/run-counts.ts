import type { ReplicaRuns, RunCounts } from "../../compute/compute.ts";
import type { MetricSample } from "../../contract/logs/metrics.ts";
import type { RunningDeployment } from "../fleet.ts";

/** Replicas that are asked at the same time. */
const concurrencyMax = 16;

/** Replicas per deployment that are asked for runs. All report the same number, but one may be too busy to answer. */
const replicasAskedMax = 3;

/** Asks replicas for their runs, those that do not report any only once. */
export class RunCountReader {
  readonly #read: ReplicaRuns["readRunCounts"];
  #without = new Set<string>();
  /** Whether each deployment answered when it was asked last. */
  #answered = new Map<string, boolean>();

  constructor(read: ReplicaRuns["readRunCounts"]) {
    this.#read = read;
  }

  /** Adds the runs of each deployment to `found` as they arrive. */
  async readInto(found: Map<string, RunCounts>, running: RunningDeployment[], signal: AbortSignal): Promise<void> {
    const current = new Set(running.flatMap(({ replicaIds }) => replicaIds));
    this.#without = new Set([...this.#without].filter((replicaId) => current.has(replicaId)));
    const ids = new Set(running.map(({ deploymentId }) => deploymentId));
    this.#answered = new Map([...this.#answered].filter(([id]) => ids.has(id)));
    const left = this.#inOrder(running);
    const worker = async () => {
      for (let next = left.pop(); next !== undefined && !signal.aborted; next = left.pop()) {
        const counts = await this.#firstAnswer(next.replicaIds);
        this.#answered.set(next.deploymentId, counts !== undefined);
        if (counts != null) found.set(next.deploymentId, counts);
      }
    };
    await Promise.all(Array.from({ length: concurrencyMax }, worker));
  }

  /**
   * Returns the deployments, the first one last: those that answered, then new ones, then those that did not answer. A hundred agents that
   * never answer would otherwise take the whole time of each round.
   */
  #inOrder(running: RunningDeployment[]): RunningDeployment[] {
    const rankOf = ({ deploymentId }: RunningDeployment) => {
      const hasAnswered = this.#answered.get(deploymentId);
      return hasAnswered === undefined ? 1 : hasAnswered ? 2 : 0;
    };
    return running.toSorted((a, b) => rankOf(a) - rankOf(b));
  }

  /** @returns null: none reports runs; undefined: none answered. */
  async #firstAnswer(replicaIds: string[]): Promise<RunCounts | null | undefined> {
    const asked = replicaIds.filter((replicaId) => !this.#without.has(replicaId)).slice(0, replicasAskedMax);
    for (const replicaId of asked) {
      const counts = await this.#read(replicaId).catch(() => undefined);
      if (counts === null) this.#without.add(replicaId);
      else if (counts !== undefined) return counts;
    }
    return asked.every((replicaId) => this.#without.has(replicaId)) ? null : undefined;
  }
}

/** Returns the fields of a sample. Totals that have shrunk are those of a new queue. */
export function runFields(
  before: RunCounts | undefined,
  now: RunCounts | undefined,
): Pick<
  MetricSample,
  "runs_waiting" | "runs_running" | "runs_failed" | "runs_recovered" | "input_tokens" | "output_tokens"
> {
  const grown = (name: "failed" | "recovered") => {
    const [earlier, later] = [before?.[name], now?.[name]];
    if (later == null) return null;
    return earlier == null ? 0 : later - (later < earlier ? 0 : earlier);
  };
  const newTokens = (name: "input" | "output") => {
    const later = now?.tokens?.[name];
    if (later === undefined) return null;
    // The first round counts nothing. A server that reported its runs without tokens before had used none.
    const earlier = before === undefined ? later : (before.tokens?.[name] ?? 0);
    return later - (later < earlier ? 0 : earlier);
  };
  return {
    runs_waiting: now?.pending ?? null,
    runs_running: now?.running ?? null,
    runs_failed: grown("failed"),
    runs_recovered: grown("recovered"),
    input_tokens: newTokens("input"),
    output_tokens: newTokens("output"),
  };
}
