import type { ObservedExit, StartFailure, Verdict } from "../../exit-cause.ts";
import { agentPort, type ReplicaRecord } from "./container.ts";

/** What the container's first process prints when there is no such program, and ends with 126 or 127. */
const initFailure = /^\[FATAL tini \(\d+\)\] exec (.+) failed: (.+)$/;

/** An image whose command cannot be run. */
export function explainStartFailure({ exitCode, lastLines }: ObservedExit): StartFailure | undefined {
  if (exitCode !== 126 && exitCode !== 127) return undefined;
  const [, program, why] = lastLines.map((line) => initFailure.exec(line)).find((found) => found !== null) ?? [];
  if (program === undefined) return undefined;
  return { reason: "StartError", message: `The image's command '${program}' cannot be run: ${why}. Correct its CMD.` };
}

/** What the machine or the engine lacks for the moment, said in the same sentence as what an image has wrong. */
const machineLacks =
  /no space left|disk quota|cannot allocate memory|resource (temporarily unavailable|busy)|too many open files|input\/output error|context (canceled|deadline exceeded)|timed out|cgroup|ttrpc|transport is closing|connection (refused|reset)|start failed/i;

/** The engine's refusal to make or run a container, for a reason that will be there next time: the image is at fault. */
export function isImageAtFault(message: string): boolean {
  if (machineLacks.test(message)) return false;
  return /OCI runtime|failed to create (shim )?task|exec format error|executable file not found|no command specified/i.test(
    message,
  );
}

/** @param lastStatus of the answer to the last question; null: nobody answered. */
export function notHealthy(record: ReplicaRecord, lastStatus: number | null): Verdict {
  const what =
    lastStatus === null
      ? `In its container it must listen on 0.0.0.0, not on 127.0.0.1, and on the port in PORT (${agentPort}).`
      : `Its last answer was ${lastStatus}.`;
  const within = `within ${record.startTimeoutMs / 1000} s`;
  return {
    reason: "NotHealthy",
    message: `The agent server did not answer 200 on ${record.healthPath} ${within} and was ended. ${what}`,
  };
}
