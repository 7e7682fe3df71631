import { NoCapacity } from "../../compute.ts";
import type { ObservedExit, StartFailure, Verdict } from "../../exit-cause.ts";
import { answersBadly, shownHealthPath } from "../../health.ts";
import { EngineError } from "../engine/engine.ts";
import { agentPort, type ReplicaRecord } from "./container.ts";

/** Line that the container's init process prints when the program does not exist; it exits with 126 or 127. */
const initFailure = /^\[FATAL tini \(\d+\)\] exec (.+) failed: (.+)$/;

/** Explains an image whose command cannot be run. */
export function explainStartFailure({ exitCode, lastLines }: ObservedExit): StartFailure | undefined {
  if (exitCode !== 126 && exitCode !== 127) return undefined;
  const [, program, why] = lastLines.map((line) => initFailure.exec(line)).find((found) => found !== null) ?? [];
  if (program === undefined) return undefined;
  return { reason: "StartError", message: `The image's command '${program}' cannot be run: ${why}. Correct its CMD.` };
}

/** Messages about an exhausted resource: disk, memory, processes, addresses of a network. */
const full =
  /no space left|disk quota|cannot allocate memory|resource temporarily unavailable|too many open files|no available IPv4|no addresses left/i;

/** Returns that the engine's machine is full if the engine reports that, else the error itself. */
export const orNoCapacity = (error: unknown): unknown =>
  error instanceof EngineError && full.test(error.message)
    ? new NoCapacity(`The machine of the container engine has no room: ${error.message}`, { cause: error })
    : error;

/** Temporary shortages of the machine or the engine, which come in the same sentences as faults of the image. */
const machineLacks =
  /no space left|disk quota|cannot allocate memory|resource (temporarily unavailable|busy)|too many open files|input\/output error|context (canceled|deadline exceeded)|timed out|cgroup|ttrpc|transport is closing|connection (refused|reset)|start failed/i;

/** Returns whether the engine refused to create or run a container for a permanent reason, so that the image is at fault. */
export function isImageAtFault(message: string): boolean {
  if (machineLacks.test(message)) return false;
  return /OCI runtime|failed to create (shim )?task|exec format error|executable file not found|no command specified/i.test(
    message,
  );
}

/** @param answers of `describeAnswers`, at the end; null: the server did not answer. */
export function notHealthy(record: ReplicaRecord, answers: string | null): Verdict {
  const what =
    answers === null
      ? `In its container it must listen on 0.0.0.0, not on 127.0.0.1, and on the port in PORT (${agentPort}).`
      : answersBadly(answers, record.healthPath);
  const within = `within ${record.startTimeoutMs / 1000} s`;
  return {
    reason: "NotHealthy",
    message: `The agent server did not answer 200 on ${shownHealthPath(record.healthPath)} ${within} and was killed. ${what}`,
  };
}
