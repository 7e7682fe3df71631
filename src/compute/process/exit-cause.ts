import type { ReplicaExit } from "../compute.ts";

/** What is known when a replica has ended. */
export interface Ending {
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

/** Why we ended it ourselves, or know better than its exit code. */
export interface Verdict {
  reason: "NotHealthy" | "PortTaken";
  message: string;
}

/** Says in words a user can act on why a replica is not running. Pure. */
export function explainExit(ending: Ending): ReplicaExit {
  const { exitCode, signal, lastLines, verdict } = ending;
  const facts = { exitCode, signal, lastLines };
  if (verdict !== undefined) return { ...facts, ...verdict };
  if (isOutOfMemory(ending)) return { ...facts, reason: "OutOfMemory", message: outOfMemory(ending) };
  const launchFailure = lastLines.find((line) => line.startsWith(launchFailurePrefix));
  if (!ending.wasReady && exitCode === launchFailureExitCode && launchFailure !== undefined) {
    return { ...facts, reason: "StartError", message: launchFailure.replace(/^pierhead: c/, "C") };
  }
  return { ...facts, reason: "Exited", message: exited(ending) };
}

/** What the gate prints, and ends with, when the agent server's program cannot be started at all. */
export const launchFailurePrefix = "pierhead: cannot start ";
export const launchFailureExitCode = 127;

/** V8 aborts (134 = 128 + SIGABRT, seen through a wrapping shell) when its heap is at `--max-old-space-size`. */
function isOutOfMemory({ exitCode, signal, outOfMemoryKills, lastLines }: Ending): boolean {
  if (outOfMemoryKills > 0) return true;
  const wasAborted = signal === "SIGABRT" || exitCode === 134 || (exitCode === null && signal === null);
  return wasAborted && lastLines.some((line) => /JavaScript heap out of memory/.test(line));
}

const outOfMemory = ({ memoryLimitMib, wasReady }: Ending) =>
  `The agent server was ended because it needed more than its memory limit of ${memoryLimitMib} MiB` +
  `${wasReady ? "" : " before it was ready"}. Raise the limit, or find out what it loads.`;

function exited({ wasReady, exitCode, signal, lastLines }: Ending): string {
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
