import type { Clock } from "../../base/clock.ts";
import { withDeadline } from "../../base/deadline.ts";
import { type Compute, offersMetrics, offersRuns, type ReplicaUsage } from "../../compute/compute.ts";
import type { RevisionRun } from "../../contract/listeners/assignment.ts";
import { type Load, neededReplicas, nextScale, type Scale } from "../../domain/scaling.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { replicaBounds } from "./pass.ts";
import type { ReplicaFacts } from "./plan-state.ts";

/** A deployment that carries traffic and may scale. */
export interface Scalable {
  deploymentId: string;
  /** The revision that carries the traffic. */
  run: RevisionRun;
  scale: Scale;
  ready: Pick<ReplicaFacts, "replicaId" | "inFlight">[];
}

/** The interval of the Kubernetes autoscaler. A round costs a few file reads, or one engine call, per replica. */
const scaleIntervalMs = 15_000;

const usageTimeoutMs = 10_000;

/** Replicas per deployment that are asked for runs. All report the same number, but one may be too busy to answer. */
const replicasAskedMax = 3;

export interface ScalerOptions {
  compute: Compute;
  clock: Clock;
  logger: Logger;
  /** The scaler removes replicas only after fewer would have been enough for this long. */
  holdMs: number;
  fleet: { scalable(): Scalable[]; scale(deploymentId: string, scale: Scale): void };
}

/** CPU usage of replicas in the previous round. */
interface PreviousUsage {
  atMs: number;
  cpuSeconds: Map<string, number>;
}

/** Measures the load of replicas and sets how many there should be. */
export class Scaler {
  readonly #options: ScalerOptions;
  #life: AbortController | null = null;
  #cancel = () => {};
  #previous: PreviousUsage | null = null;
  /** Replicas that do not report runs. */
  #withoutRuns = new Set<string>();

  constructor(options: ScalerOptions) {
    this.#options = options;
  }

  /** Begins to scale. Called when this instance starts to lead. */
  start(): void {
    this.stop();
    this.#life = new AbortController();
    void this.#round(this.#life.signal);
  }

  stop(): void {
    this.#cancel();
    this.#life?.abort();
    this.#life = null;
    this.#previous = null;
  }

  async #round(signal: AbortSignal): Promise<void> {
    try {
      await this.#scaleAll(signal);
    } catch (error) {
      if (!signal.aborted) this.#options.logger.debug({ error: describeError(error) }, "load could not be measured");
    }
    if (signal.aborted) return;
    this.#cancel = this.#options.clock.setTimeout(() => void this.#round(signal), scaleIntervalMs);
  }

  async #scaleAll(signal: AbortSignal): Promise<void> {
    const { clock, holdMs, logger, fleet } = this.#options;
    const scalable = fleet.scalable().filter(({ ready }) => ready.length > 0);
    const [usage, runs] =
      scalable.length === 0 ? [null, null] : await Promise.all([this.#readUsage(signal), this.#readRuns(scalable)]);
    signal.throwIfAborted();
    const nowMs = clock.now();
    const before = this.#previous;
    this.#previous = usage && {
      atMs: nowMs,
      cpuSeconds: new Map(usage.map(({ replicaId, cpuSeconds }) => [replicaId, cpuSeconds])),
    };
    for (const { deploymentId, run, scale, ready } of scalable) {
      const load = loadOf(run, ready, { usage, runs: runs?.get(deploymentId) ?? 0, before, nowMs });
      const bounds = replicaBounds(run);
      const from = Math.max(bounds.min, scale.replicas);
      const next = nextScale({ ...scale, replicas: from }, neededReplicas(load), { ...bounds, holdMs }, nowMs);
      if (next.replicas !== from) {
        const fields = { deployment_id: deploymentId, from, to: next.replicas, ...load };
        logger.info(fields, "deployment scaled");
      }
      if (next.replicas !== scale.replicas || next.lower !== scale.lower) fleet.scale(deploymentId, next);
    }
  }

  /** Returns the number of runs by deployment. Replicas answer within a few seconds or count as 0. */
  async #readRuns(scalable: Scalable[]): Promise<Map<string, number> | null> {
    const { compute } = this.#options;
    if (!offersRuns(compute)) return null;
    const current = new Set(scalable.flatMap(({ ready }) => ready.map(({ replicaId }) => replicaId)));
    this.#withoutRuns = new Set([...this.#withoutRuns].filter((replicaId) => current.has(replicaId)));
    const ask = async ({ replicaId }: Scalable["ready"][number]) => {
      if (this.#withoutRuns.has(replicaId)) return 0;
      const count = await compute.readRuns(replicaId);
      if (count === null) this.#withoutRuns.add(replicaId);
      return count ?? 0;
    };
    const counts = scalable.map(
      async ({ deploymentId, ready }) =>
        [deploymentId, Math.max(0, ...(await Promise.all(ready.slice(0, replicasAskedMax).map(ask))))] as const,
    );
    return new Map(await Promise.all(counts));
  }

  async #readUsage(signal: AbortSignal): Promise<ReplicaUsage[] | null> {
    const { compute, clock } = this.#options;
    if (!offersMetrics(compute)) return null;
    return withDeadline({ clock, timeoutMs: usageTimeoutMs, signal }, (ending) => compute.readUsage(ending));
  }
}

function loadOf(
  run: RevisionRun,
  ready: Scalable["ready"],
  measured: { usage: ReplicaUsage[] | null; runs: number; before: PreviousUsage | null; nowMs: number },
): Load {
  const ids = new Set(ready.map(({ replicaId }) => replicaId));
  const used = measured.usage?.filter(({ replicaId }) => ids.has(replicaId)) ?? [];
  return {
    replicas: ready.length,
    cpu: cpuLoadOf(run, used, measured),
    memory: used.length === 0 ? null : mean(used.map(({ memoryMib }) => memoryMib)) / run.memory_limit_mib,
    // A client that waits for a run, or watches it, is a request in flight as well, so the two are not added.
    pending: Math.max(
      measured.runs,
      ready.reduce((sum, { inFlight }) => sum + inFlight, 0),
    ),
  };
}

/** Returns the CPU load between two rounds. Replicas that were missing in the first one are ignored. */
function cpuLoadOf(
  run: RevisionRun,
  used: ReplicaUsage[],
  { before, nowMs }: { before: PreviousUsage | null; nowMs: number },
): number | null {
  if (before === null || nowMs <= before.atMs) return null;
  const seconds = used.flatMap(({ replicaId, cpuSeconds }) => {
    const earlier = before.cpuSeconds.get(replicaId);
    return earlier === undefined ? [] : [Math.max(0, cpuSeconds - earlier)];
  });
  if (seconds.length === 0) return null;
  return mean(seconds) / ((nowMs - before.atMs) / 1_000) / run.cpu_limit_cores;
}

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
