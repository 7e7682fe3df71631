import type { ReplicaSpec } from "../../src/compute/compute.ts";
import {
  openSimulatedCompute,
  type SimulatedCompute,
  type SimulatedWorldOptions,
} from "../../src/compute/simulated.ts";

/** A simulated driver that records its starts, and those that should not have happened. */
export interface RecordingCompute extends SimulatedCompute {
  /** Revisions that were started at least once. */
  readonly started: ReadonlyMap<string, ReadonlySet<string>>;
  /** Starts of a revision that already ran under another name without a death, or that had ended. */
  readonly wrong: readonly string[];
  /** Replicas that exist now. */
  count(): number;
}

/**
 * Here no replica dies on its own and every deployment has one replica, so a second start of a revision is work done
 * twice.
 */
export function openRecordingCompute(options: SimulatedWorldOptions): RecordingCompute {
  const compute = openSimulatedCompute(options);
  const started = new Map<string, Set<string>>();
  const wrong: string[] = [];
  const ended = new Set<string>();
  const note = ({ revisionId, replicaId }: ReplicaSpec) => {
    const names = started.get(revisionId) ?? new Set();
    names.add(replicaId);
    started.set(revisionId, names);
    if (names.size > 1) wrong.push(`revision ${revisionId} was started as ${[...names].join(" and ")}`);
    if (ended.has(revisionId)) wrong.push(`revision ${revisionId} was started after its end`);
  };
  return {
    ...compute,
    started,
    wrong,
    count: () => compute.world.snapshot().length,
    async ensure(spec, signal) {
      note(spec);
      await compute.ensure(spec, signal);
    },
    async remove(replicaId, options) {
      const revisionId = compute.world.snapshot().find((replica) => replica.replicaId === replicaId)?.revisionId;
      if (revisionId !== undefined) ended.add(revisionId);
      await compute.remove(replicaId, options);
    },
  };
}
