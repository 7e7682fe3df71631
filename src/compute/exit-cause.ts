import { type CauseExcerpt, findCauseExcerpt } from "./cause-excerpt.ts";
import type { ReplicaExit } from "./compute.ts";
import { findMissingExport } from "./missing-export.ts";
import { ownFrames } from "./own-frames.ts";
import { findMissingVariables, findStartCause, nameMax, plainLines, rootException } from "./start-cause.ts";

/** What a driver observed about a replica that has ended. */
export interface ObservedExit {
  wasReady: boolean;
  /** null: the replica was not our child process, or a signal ended it. */
  exitCode: number | null;
  signal: string | null;
  /** Number of processes in its cgroup that the kernel killed because memory ran out. */
  outOfMemoryKills: number;
  memoryLimitMib: number;
  verdict: Verdict | undefined;
  /** As many as `causeLinesMax`: the cause is often above the last lines that users see. */
  lastLines: string[];
  /** Variables that the project's example file or sources name and the deployment does not have. */
  unsetVariables?: readonly string[];
}

/** Lines of a log in which the cause of an end is looked for: a traceback of a server with all its modules. */
export const causeLinesMax = 200;

/** Lines of a log that a replica's exit has. */
const lastLinesMax = 30;

export type StartFailure = Pick<ReplicaExit, "reason" | "message"> & { lastLines?: string[] };

/** A cause that the driver knows better than the exit code says, for example because it killed the replica itself. */
export interface Verdict {
  reason: "NotHealthy" | "PortTaken" | "OutOfDisk" | "Lost";
  message: string;
}

/**
 * Explains why a replica is not running, in a message that the user can act on. Pure.
 * @param explainStart called for a replica that was never ready: recognizes start failures of the driver's own making.
 */
export function explainExit(
  ending: ObservedExit,
  explainStart: (ending: ObservedExit) => StartFailure | undefined,
): ReplicaExit {
  const { exitCode, signal, verdict } = ending;
  const facts = { exitCode, signal, lastLines: ownFrames(ending.lastLines).slice(-lastLinesMax) };
  if (verdict !== undefined) return { ...facts, ...verdict, ...explainVerdict(verdict, ending) };
  if (isOutOfMemory(ending)) return { ...facts, reason: "OutOfMemory", message: outOfMemory(ending) };
  const startFailure = ending.wasReady ? undefined : explainStart(ending);
  if (startFailure !== undefined) return { ...facts, ...startFailure };
  const lacks = ending.wasReady ? undefined : findLackOfEngine(ending.lastLines);
  if (lacks !== undefined) return { ...facts, reason: "EngineUnavailable", message: lacks, lastLines: [] };
  const missing = ending.wasReady ? null : findMissingVariables(ending.lastLines, ending.unsetVariables ?? []);
  const excerpt = ending.wasReady ? null : excerptOf(ending.lastLines, missing?.line);
  const cause = { reason: "Exited", message: exited(ending, excerpt), ...(excerpt && { lastLines: excerpt.lines }) };
  // The sentence says all of it, so the lines only show the import.
  const lacking = ending.wasReady || missing !== null ? null : findMissingExport(plainLines(ending.lastLines));
  if (lacking !== null && cause.message.includes(lacking.sentence))
    return { ...facts, ...cause, lastLines: lacking.proof };
  if (missing === null) return { ...facts, ...cause };
  const lines = excerpt?.lines ?? facts.lastLines;
  return { ...facts, ...cause, lastLines: proofLines(lines, missing.line), variables: askedOf(missing.names, ending) };
}

/** More names are most likely those of optional settings. */
const alsoAskedMax = 4;

/** Maximum names in a report (`Cause` in the contract). */
const askedMax = 10;

/** Returns the missing variables, with the others that the project names and that are not set, so that users set all of them at once. */
function askedOf(names: string[], { unsetVariables = [] }: ObservedExit): string[] {
  const others = unsetVariables.filter((name) => !names.includes(name) && name.length <= nameMax);
  return others.length > alsoAskedMax ? names : [...names, ...others].slice(0, askedMax);
}

/** Returns what an image says whose engine has no database (langgraph-js-start.ts, langgraph-python-start.py); undefined: nothing. */
export function findLackOfEngine(lines: readonly string[]): string | undefined {
  const form =
    /^(?:Error: )?(The engine (?:postgres|aegra) needs a (?:PostgreSQL|Redis), and this deployment has none\..*)/;
  return lines.flatMap((line) => form.exec(line)?.slice(1) ?? [])[0];
}

/** @param named line that names the missing variables. */
export function excerptOf(lines: readonly string[], named: string | undefined): CauseExcerpt | null {
  return findCauseExcerpt(lines, named ?? rootException(plainLines(lines)));
}

/**
 * Adds the cause from the log to a verdict about health: a server that answers with errors logs the exception behind them, and a
 * server under a file watcher does not exit when a variable is missing.
 */
function explainVerdict({ reason, message }: Verdict, { wasReady, lastLines, unsetVariables = [] }: ObservedExit) {
  if (reason !== "NotHealthy") return { message };
  const missing = wasReady ? null : findMissingVariables(lastLines, unsetVariables);
  if (missing !== null)
    return { message: `${message} ${findStartCause(lastLines, unsetVariables)}`, variables: missing.names };
  const error = rootException(plainLines(lastLines));
  return { message: error === null ? message : `${message} The last error in its log: ${error}` };
}

/** Reports a replica as ended with an unclear cause: better than showing it as running when it may not be. */
export const lost = (error: string): Verdict => ({
  reason: "Lost",
  message: `Pierhead lost track of the agent server because of an error: ${error}. Deploy again.`,
});

/** A longer traceback says no more about a missing variable than its last line. */
const proofLinesMax = 10;

/** Returns the traceback that ends in a missing variable, or only the line that names it: the message says what to do. */
function proofLines(lines: readonly string[], proof: string): string[] {
  const traceback = lines.slice(lines.findLastIndex((line) => line.startsWith("Traceback ")));
  const isShort = traceback.length <= proofLinesMax && traceback[0]?.startsWith("Traceback ") === true;
  return isShort ? traceback : [proof];
}

/** V8 aborts (134 = 128 + SIGABRT, as a wrapping shell reports it) when its heap reaches `--max-old-space-size`. */
function isOutOfMemory({ exitCode, signal, outOfMemoryKills, lastLines }: ObservedExit): boolean {
  if (outOfMemoryKills > 0) return true;
  const wasAborted = signal === "SIGABRT" || exitCode === 134 || (exitCode === null && signal === null);
  return wasAborted && lastLines.some((line) => /JavaScript heap out of memory/.test(line));
}

const outOfMemory = ({ memoryLimitMib, wasReady }: ObservedExit) =>
  `The agent server was killed because it used more than its memory limit of ${memoryLimitMib} MiB` +
  `${wasReady ? "" : " before it was ready"}. Give the deployment a larger size, or reduce what the agent loads.`;

const unsetShownMax = 10;

function exited(
  { wasReady, exitCode, signal, lastLines, unsetVariables = [] }: ObservedExit,
  excerpt: CauseExcerpt | null,
): string {
  const how =
    exitCode !== null
      ? `with exit code ${exitCode}`
      : signal !== null
        ? `by signal ${signal}`
        : "while Pierhead was not running, so its exit code is unknown";
  if (exitCode === 0 && !wasReady && lastLines.some((line) => /\bstdio\b/i.test(line)))
    return "The agent server ended without an error before it was ready. Its log mentions stdio: it speaks over standard input, where nothing is sent. Start it with its transport over HTTP, by an argument of the start script or a variable, and on the port in PORT.";
  if (exitCode === 0 && !wasReady) {
    return "The agent server ended without an error before it was ready. It must keep running and listen on the port in PORT: check that the start command starts a server.";
  }
  const hint =
    lastLines.length > 0 ? "The last lines of its log show the cause." : "It wrote no log. Check its start command.";
  // A server that ran has a long log: only an exception at its end is the cause.
  if (wasReady) return `The agent server ended ${how}. ${rootException(lastLines.slice(-lastLinesMax)) ?? hint}`;
  const found = findStartCause(lastLines, unsetVariables);
  const cause = found === null ? hint : withLocation(found, excerpt);
  const unset = unsetVariables
    .filter((name) => !cause.includes(name))
    .slice(0, unsetShownMax)
    .join(", ");
  const end = /[.!?:]$/.test(cause) ? "" : ".";
  const also = unset === "" ? "" : `${end} The project also names variables that are not set: ${unset}.`;
  return `The agent server ended ${how} before it was ready. ${cause}${also}`;
}

/** Adds the line of the project that an exception comes from. Causes in our own words name what to change. */
const withLocation = (cause: string, excerpt: CauseExcerpt | null) =>
  excerpt?.location != null && cause.endsWith(excerpt.said) ? `${cause} (${excerpt.location})` : cause;
