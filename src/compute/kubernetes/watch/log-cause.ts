import type { Cause } from "../../../contract/listeners/assignment.ts";
import { excerptOf, findLackOfEngine } from "../../exit-cause.ts";
import { ownFrames } from "../../own-frames.ts";
import { findMissingVariables, findStartCause } from "../../start-cause.ts";

/** Number of last lines of a container that keeps exiting. */
const lastLinesMax = 30;

/** Adds the end of a container's log to the cause of its exits, and what the log says about it. */
export function causeWithLog(cause: Cause, lines: readonly string[]): Cause {
  const ending = ownFrames(lines).slice(-lastLinesMax);
  // The log of a container that ran may have exceptions of requests, which are not why it was killed.
  if (cause.reason !== "Exited") return { ...cause, last_lines: ending };
  const lacks = findLackOfEngine(lines);
  if (lacks !== undefined) return { ...cause, reason: "EngineUnavailable", message: lacks, last_lines: [] };
  const missing = findMissingVariables(lines, []);
  const known = { ...cause, last_lines: excerptOf(lines, missing?.line)?.lines ?? ending };
  const sentence = findStartCause(lines);
  // A termination message may be the end of the log.
  if (sentence === null || cause.message.includes(sentence.replace(/\.$/, ""))) return known;
  const variables = missing === null ? {} : { variables: missing.names };
  return { ...known, ...variables, message: `${cause.message} ${sentence}` };
}
