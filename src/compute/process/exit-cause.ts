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
  reason: "NotHealthy" | "PortTaken" | "Lost";
  message: string;
}

/** Says in words a user can act on why a replica is not running. Pure. */
export function explainExit(ending: Ending): ReplicaExit {
  const { exitCode, signal, lastLines, verdict } = ending;
  const facts = { exitCode, signal, lastLines };
  if (verdict !== undefined) return { ...facts, ...verdict };
  if (isOutOfMemory(ending)) return { ...facts, reason: "OutOfMemory", message: outOfMemory(ending) };
  const startFailure = ending.wasReady ? undefined : explainStartFailure(ending);
  if (startFailure !== undefined) return { ...facts, ...startFailure };
  return { ...facts, reason: "Exited", message: exited(ending) };
}

/** What the gate prints, and ends with, when the agent server's program cannot be started at all. */
export const launchFailurePrefix = "pierhead: cannot start ";
export const launchFailureExitCode = 127;

type StartFailure = Pick<ReplicaExit, "reason" | "message"> & { lastLines?: string[] };

/** The gate says what it could find out before; what the kernel refuses then ends it, with a report of Node's own. */
function explainStartFailure({ exitCode, signal, lastLines }: Ending): StartFailure | undefined {
  const said = lastLines.find((line) => line.startsWith(launchFailurePrefix));
  if (said !== undefined && exitCode === launchFailureExitCode) {
    return { reason: "StartError", message: said.replace(/^pierhead: c/, "C") };
  }
  const [refusal, code = ""] = /^process\.execve failed with error code ?(\w*)$/m.exec(lastLines.join("\n")) ?? [];
  if (refusal === undefined || (signal !== "SIGABRT" && signal !== null)) return undefined;
  const why = kernelRefusals[code] ?? `the kernel refused it${code === "" ? "" : ` (${code})`}`;
  return { reason: "StartError", message: `The start command cannot be run: ${why}.`, lastLines: [refusal] };
}

/** E2BIG comes without its name. */
const kernelRefusals: Record<string, string> = {
  ENOENT: "the interpreter that its first line names is not there",
  ENOEXEC: "it is neither a program for this machine nor a script that begins with #!",
  "": "its arguments and its environment are too long together",
};

export const portTaken = (port: number | null): Verdict => ({
  reason: "PortTaken",
  message: `Another program listens on port ${port}, which was chosen for the agent server. Deploy again.`,
});

export const notHealthy = (record: { runner: string; healthPath: string; startTimeoutMs: number }): Verdict => ({
  reason: "NotHealthy",
  message:
    `The agent server did not answer 200 on ${record.healthPath} within ${record.startTimeoutMs / 1000} s and was ended. ` +
    (record.runner === "command"
      ? "It must listen on 127.0.0.1 and the port in PORT."
      : "Its graphs may take too long to load."),
});

/** Rather ended with a strange cause than shown as running for ever. */
export const lost = (error: string): Verdict => ({
  reason: "Lost",
  message: `Pierhead could not go on watching the agent server: ${error}. Deploy again.`,
});

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
