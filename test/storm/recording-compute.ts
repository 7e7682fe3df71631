import type { ReplicaSpec } from "../../src/compute/compute.ts";
import {
  openSimulatedCompute,
  type SimulatedCompute,
  type SimulatedWorldOptions,
} from "../../src/compute/simulated.ts";

/** A simulated driver that remembers what it was told to start, and what of it should not have been. */
export interface RecordingCompute extends SimulatedCompute {
  /** Revisions that were ever started. */
  readonly started: ReadonlyMap<string, ReadonlySet<string>>;
  /** Starts of what runs under another name, though nothing of it had died, and of what had been ended. */
  readonly wrong: readonly string[];
  /** Replicas that are there now. */
  count(): number;
}

/**
 * In this world nothing dies by itself and every deployment has one replica: a second start of a revision is work done
 * twice, by whoever decided it.
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
