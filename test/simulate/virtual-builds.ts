import type { BuildResult } from "../../src/builds/build.ts";
import type { BuildWorkers } from "../../src/reconciler/builds/build-workers.ts";

interface Clock {
  setTimeout(run: () => void, delayMs: number): () => void;
}

/** Build processes of one server on virtual time. Those of a dead server end without a result. */
export function virtualWorkers(
  clock: Clock,
  isDead: () => boolean,
  planOf: (revisionId: string) => { durationMs: number; result: BuildResult },
): BuildWorkers {
  let pid = 0;
  return {
    start({ buildId }) {
      const { durationMs, result } = planOf(buildId);
      const ended = Promise.withResolvers<BuildResult>();
      const end = (outcome: BuildResult) => void (isDead() || ended.resolve(outcome));
      const cancelTimer = clock.setTimeout(() => end(result), durationMs);
      pid += 1;
      return {
        pid,
        startedAtTicks: "1",
        result: ended.promise,
        async cancel() {
          cancelTimer();
          end({ ok: false, reason: "Cancelled", message: "The build was cancelled." });
        },
      };
    },
    async kill() {},
    async removeWorkDirs() {},
    every(intervalMs, act) {
      let cancel = () => {};
      const schedule = () => {
        cancel = clock.setTimeout(() => {
          if (isDead()) return;
          act();
          schedule();
        }, intervalMs);
      };
      schedule();
      return () => cancel();
    },
  };
}
