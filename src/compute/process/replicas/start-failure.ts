import type { ObservedExit, StartFailure, Verdict } from "../../exit-cause.ts";

/** What the gate prints, and ends with, when the agent server's program cannot be started at all. */
export const launchFailurePrefix = "pierhead: cannot start ";
export const launchFailureExitCode = 127;

/** The gate says what it could find out before; what the kernel refuses then ends it, with a report of Node's own. */
export function explainStartFailure({ exitCode, signal, lastLines }: ObservedExit): StartFailure | undefined {
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
