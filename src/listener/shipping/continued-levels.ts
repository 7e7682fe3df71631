import type { ReplicaLogChunk } from "../../compute/compute.ts";

type Line = ReplicaLogChunk["lines"][number];

interface Continued {
  level: Line["level"];
  /** `inside`: in the frames of a traceback. `after`: behind its exception, where a chained one may follow. */
  traceback: "none" | "inside" | "after";
  lines: number;
}

/** What the next line of each stream may continue. */
export type ContinuedLevels = Partial<Record<Line["stream"], Continued>>;

/** A server that indents all that it writes does not stay in one error forever. */
const continuedLinesMax = 1_000;

/** Also matches the box that `rich` draws around a traceback. */
const tracebackStart = /Traceback \(most recent call last\)/;
const indented = /^[\s|+│╭╰]/;
const chained =
  /^(?:The above exception was the direct cause of the following exception:|During handling of the above exception, another exception occurred:)$/;
const closing = /^(?:[}\])]+[,;]?$|Caused by: )/;

/** The last line of an exception group. */
const groupEnd = /^\s*\+-+$/;

/** Loggers such as that of `rich` indent a line that has the same time as the one before. */
const ownLevel = /^\s*\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?)\b/;

/**
 * Gives the lines that continue an error its level: frames, source lines and exceptions of tracebacks, and indented lines such as
 * those of a stack in JavaScript. They have no level of their own, and a search for errors would return an error without its cause.
 */
export function continueLevels(streams: ContinuedLevels, lines: readonly Line[]): Line[] {
  return lines.map((line) => {
    const { level, continued } = levelOf(line, streams[line.stream]);
    if (continued === undefined) delete streams[line.stream];
    else streams[line.stream] = continued;
    return level === line.level ? line : { ...line, level };
  });
}

function levelOf(
  { level, message }: Line,
  before: Continued | undefined,
): { level: Line["level"]; continued: Continued | undefined } {
  if (tracebackStart.test(message)) {
    const severe = isSevere(level) ? level : "ERROR";
    // A record in JSON has the whole traceback in one message.
    const traceback = message.includes("\n") ? "none" : "inside";
    return { level: severe, continued: { level: severe, traceback, lines: 0 } };
  }
  const isInside = before?.traceback === "inside";
  // Another thread may write between the lines of a traceback.
  if (ownLevel.test(message) && !isSevere(level) && !(isInside && indented.test(message)))
    return { level, continued: isInside ? { ...before, lines: before.lines + 1 } : undefined };
  if (before === undefined || before.lines >= continuedLinesMax || !continues(message, before))
    return { level, continued: isSevere(level) ? { level, traceback: "none", lines: 0 } : undefined };
  const shown = isSevere(level) ? level : before.level;
  const isException = isInside && message.trim() !== "" && (!indented.test(message) || groupEnd.test(message));
  const traceback = isException ? "after" : before.traceback;
  return { level: shown, continued: { level: before.level, traceback, lines: before.lines + 1 } };
}

function continues(message: string, { traceback }: Continued): boolean {
  if (traceback === "inside") return true;
  if (message.trim() === "") return traceback === "after";
  return indented.test(message) || closing.test(message) || (traceback === "after" && chained.test(message));
}

const isSevere = (level: Line["level"]) => level === "ERROR" || level === "CRITICAL";
