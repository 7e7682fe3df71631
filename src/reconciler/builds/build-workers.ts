import type { BuildLine, BuildRequest, RunningBuild } from "../../builds/build.ts";
import { killBuild, removeWorkDirs, startBuild } from "../../builds/worker/start-build.ts";

/** Port: the processes in which builds run. The simulator has builds on virtual time instead. */
export interface BuildWorkers {
  /** @throws Error when the process cannot be started */
  start(request: BuildRequest, onLine: (line: BuildLine) => void): RunningBuild;
  /** Kills a build that an earlier server left, with every process it started. */
  kill(build: { pid: number; startedAtTicks: string; buildId: string }): Promise<void>;
  /** Removes what earlier attempts at a build left in the directory of builds. */
  removeWorkDirs(workRoot: string, buildId: string): Promise<void>;
  /** Calls `act` every `intervalMs` until the returned function is called. */
  every(intervalMs: number, act: () => void): () => void;
}

/** Builds in processes of this machine. */
export const processWorkers: BuildWorkers = {
  start: (request, onLine) => startBuild(request, { onLine }),
  kill: killBuild,
  removeWorkDirs,
  every(intervalMs, act) {
    const timer = setInterval(act, intervalMs).unref();
    return () => clearInterval(timer);
  },
};
