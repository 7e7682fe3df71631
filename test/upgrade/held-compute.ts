import type { Clock } from "../../src/compute/simulated.ts";
import { openRecordingCompute, type RecordingCompute } from "../storm/recording-compute.ts";

/** A simulated driver that holds the start or end of some deployments' replicas until they are released. */
export interface HeldCompute extends RecordingCompute {
  hold(kind: "start" | "end", deploymentIds: Iterable<string>): void;
  letGo(): void;
  /** Returns deployments with a replica in this phase. */
  in(phase: "starting" | "stopping"): Set<string>;
}

export function openHeldCompute(): HeldCompute {
  const held = { start: new Set<string>(), end: new Set<string>() };
  const waiting: (() => void)[] = [];
  let isHolding = false;
  const clock: Clock = {
    now: Date.now,
    setTimeout(run, delayMs) {
      if (isHolding) {
        let isCancelled = false;
        waiting.push(() => isCancelled || run());
        return () => {
          isCancelled = true;
        };
      }
      const timer = setTimeout(run, delayMs).unref();
      return () => clearTimeout(timer);
    },
  };
  const recorded = openRecordingCompute({ seed: 1, clock });
  /** The simulated world schedules its next change within the call that asks for it. */
  const holding = <T>(holds: boolean, act: () => T): T => {
    isHolding = holds;
    try {
      return act();
    } finally {
      isHolding = false;
    }
  };
  return {
    ...recorded,
    ensure: (spec, signal) => holding(held.start.has(spec.deploymentId), () => recorded.ensure(spec, signal)),
    remove(replicaId, options) {
      const replica = recorded.world.snapshot().find((one) => one.replicaId === replicaId);
      return holding(held.end.has(replica?.deploymentId ?? ""), () => recorded.remove(replicaId, options));
    },
    hold(kind, deploymentIds) {
      for (const id of deploymentIds) held[kind].add(id);
    },
    letGo() {
      for (const ids of Object.values(held)) ids.clear();
      for (const run of waiting.splice(0)) run();
    },
    in: (phase) => new Set(recorded.world.snapshot().flatMap((one) => (one.phase === phase ? [one.deploymentId] : []))),
  };
}
