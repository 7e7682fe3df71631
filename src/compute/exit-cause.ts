import type { ReplicaExit } from "./compute.ts";

/** What is known when a replica has ended. */
export interface ObservedExit {
  wasReady: boolean;
  /** null: it was not our child, or ended by a signal. */
  exitCode: number | null;
  signal: string | null;
  /** Processes of its cgroup that the kernel killed for lack of memory. */
  outOfMemoryKills: number;
  memoryLimitMib: number;
  verdict: Verdict | undefined;
  lastLines: string[];
}

export type StartFailure = Pick<ReplicaExit, "reason" | "message"> & { lastLines?: string[] };

/** Why we ended it ourselves, or know better than its exit code. */
export interface Verdict {
  reason: "NotHealthy" | "PortTaken" | "Lost";
  message: string;
}

/**
 * Says in words a user can act on why a replica is not running. Pure.
 * @param explainStart asked when it was never ready: knows the endings that the driver's own way of starting brings about.
 */
export function explainExit(
  ending: ObservedExit,
  explainStart: (ending: ObservedExit) => StartFailure | undefined,
): ReplicaExit {
  const { exitCode, signal, lastLines, verdict } = ending;
  const facts = { exitCode, signal, lastLines };
  if (verdict !== undefined) return { ...facts, ...verdict };
  if (isOutOfMemory(ending)) return { ...facts, reason: "OutOfMemory", message: outOfMemory(ending) };
  const startFailure = ending.wasReady ? undefined : explainStart(ending);
  if (startFailure !== undefined) return { ...facts, ...startFailure };
  return { ...facts, reason: "Exited", message: exited(ending) };
}

/** Rather ended with a strange cause than shown as running for ever. */
export const lost = (error: string): Verdict => ({
  reason: "Lost",
  message: `Pierhead could not go on watching the agent server: ${error}. Deploy again.`,
});

/** V8 aborts (134 = 128 + SIGABRT, seen through a wrapping shell) when its heap is at `--max-old-space-size`. */
function isOutOfMemory({ exitCode, signal, outOfMemoryKills, lastLines }: ObservedExit): boolean {
  if (outOfMemoryKills > 0) return true;
  const wasAborted = signal === "SIGABRT" || exitCode === 134 || (exitCode === null && signal === null);
  return wasAborted && lastLines.some((line) => /JavaScript heap out of memory/.test(line));
}

const outOfMemory = ({ memoryLimitMib, wasReady }: ObservedExit) =>
  `The agent server was ended because it needed more than its memory limit of ${memoryLimitMib} MiB` +
  `${wasReady ? "" : " before it was ready"}. Raise the limit, or find out what it loads.`;

function exited({ wasReady, exitCode, signal, lastLines }: ObservedExit): string {
  const how =
    exitCode !== null
      ? `with exit code ${exitCode}`
      : signal !== null
        ? `by signal ${signal}`
        : "while no running Pierhead was its parent, so its exit code is unknown";
  const hint =
    lastLines.length > 0
      ? "The last lines of its log say why."
      : "It wrote nothing; look at how the server is started.";
  return `The agent server ended ${how}${wasReady ? "" : " before it was ready"}. ${hint}`;
}
