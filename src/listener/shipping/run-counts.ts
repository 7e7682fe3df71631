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

  constructor(read: ReplicaRuns["readRunCounts"]) {
    this.#read = read;
  }

  /** Adds the runs of each deployment to `found` as they arrive. */
  async readInto(found: Map<string, RunCounts>, running: RunningDeployment[], signal: AbortSignal): Promise<void> {
    const current = new Set(running.flatMap(({ replicaIds }) => replicaIds));
    this.#without = new Set([...this.#without].filter((replicaId) => current.has(replicaId)));
    const left = [...running];
    const worker = async () => {
      for (let next = left.pop(); next !== undefined && !signal.aborted; next = left.pop()) {
        const counts = await this.#firstAnswer(next.replicaIds);
        if (counts !== undefined) found.set(next.deploymentId, counts);
      }
    };
    await Promise.all(Array.from({ length: concurrencyMax }, worker));
  }

  async #firstAnswer(replicaIds: string[]): Promise<RunCounts | undefined> {
    const asked = replicaIds.filter((replicaId) => !this.#without.has(replicaId)).slice(0, replicasAskedMax);
    for (const replicaId of asked) {
      const counts = await this.#read(replicaId).catch(() => undefined);
      if (counts === null) this.#without.add(replicaId);
      else if (counts !== undefined) return counts;
    }
    return undefined;
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
