import { missingPythonHint } from "../../../base/missing-python.ts";
import type { ObservedExit, StartFailure, Verdict } from "../../exit-cause.ts";
import { answersBadly, shownHealthPath } from "../../health.ts";

/** Prefix of the line that the gate prints, and its exit code, when the program of the agent server cannot be started. */
const launchFailurePrefix = "pierhead: cannot start ";
const launchFailureExitCode = 127;

/** Explains a failed start. The gate reports what it can check itself; what the kernel refuses shows as Node's own report. */
export function explainStartFailure({ exitCode, signal, lastLines }: ObservedExit): StartFailure | undefined {
  const said = lastLines.find((line) => line.startsWith(launchFailurePrefix));
  if (said !== undefined && exitCode === launchFailureExitCode) {
    const message = said.replace(/^pierhead: c/, "C");
    const program = /^Cannot start (\S+): no such program in PATH$/.exec(message)?.[1];
    const hint = program === undefined ? null : missingPythonHint(program);
    return { reason: "StartError", message: hint === null ? message : `${message}. ${hint}` };
  }
  const [refusal, code = ""] = /^process\.execve failed with error code ?(\w*)$/m.exec(lastLines.join("\n")) ?? [];
  if (refusal === undefined || (signal !== "SIGABRT" && signal !== null)) return undefined;
  const why = kernelRefusals[code] ?? `the kernel refused it${code === "" ? "" : ` (${code})`}`;
  const message = `The start command cannot be run: ${why}. Correct the start command of the agent.`;
  return { reason: "StartError", message, lastLines: [refusal] };
}

/** Node reports E2BIG without its name. */
const kernelRefusals: Record<string, string> = {
  ENOENT: "the interpreter in its first line does not exist on this machine",
  ENOEXEC: "it is neither a program for this machine nor a script that begins with #!",
  "": "its arguments and environment variables together are too long",
};

export const portTaken = (port: number | null): Verdict => ({
  reason: "PortTaken",
  message: `Another program listens on port ${port}, which Pierhead had chosen for the agent server. Deploy again.`,
});

/** @param answers of `describeAnswers`, at the end; null: the server did not answer. */
export function notHealthy(
  record: { runner: string; healthPath: string; startTimeoutMs: number },
  answers: string | null,
): Verdict {
  const within = `within ${record.startTimeoutMs / 1000} s`;
  return {
    reason: "NotHealthy",
    message: `The agent server did not answer 200 on ${shownHealthPath(record.healthPath)} ${within} and was killed. ${answers === null ? whyNot(record.runner) : answersBadly(answers, record.healthPath)}`,
  };
}

function whyNot(runner: string): string {
  if (runner === "command") return "It must listen on 127.0.0.1 and the port in PORT.";
  return "Its graphs may take too long to load: see its log, or raise the start timeout.";
}
