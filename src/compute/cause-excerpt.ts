import { inArtifact } from "./artifact-paths.ts";
import { frameLocation, ownFrames } from "./own-frames.ts";
import { isWrapper } from "./start-cause.ts";

/** The part of a log that shows why a start failed. */
export interface CauseExcerpt {
  /** One traceback, with the frames of the project only. */
  lines: string[];
  /** First line of the exception. */
  said: string;
  /** Where in the project the exception comes from, such as `src/agent.py, line 3`; null: only packages are in its traceback. */
  location: string | null;
}

/** More of the frames or of the message are in the log. */
const framesMax = 4;
const saidMax = 8;

/** Maximum lines in a report (`Cause` in the contract). Some versions of Python print long statements in frames. */
const linesMax = 30;

/** Longer lines are neither headings nor frames. The limit keeps a hostile line from costing seconds. */
const lineCharsMax = 1_000;

const isHeading = (line: string) => line.length <= lineCharsMax && line.endsWith("Traceback (most recent call last):");

/** What follows an exception in a log and does not belong to its message. */
const afterwards =
  /^\s*$|^The above exception was |^During handling of the above |^Could not import python module for graph:|^[\s|]*\+-+|^(?:error|ERROR|INFO|WARNING|CRITICAL|DEBUG)\b|^\d{4}-\d\d-\d\d |(?:^|\s)(?:thread_name|logger|action|location)=/;

/**
 * Returns the traceback behind a failed start; null: the log has none. Servers log one exception several times, each time with more of
 * their own frames and lines around it.
 * @param about a line of the log that names the cause.
 */
export function findCauseExcerpt(lines: readonly string[], about: string | null): CauseExcerpt | null {
  const found = lines.flatMap((line, at) => {
    return isHeading(line) ? [tracebackAt(lines, at, /^[\s|]*/.exec(line)?.[0] ?? "")] : [];
  });
  if (found.length === 0) return stackOf(lines, about);
  const causes = found.filter(({ said }) => said !== "" && !isWrapper(said));
  const named = about === null ? undefined : causes.findLast((one) => one.lines.join("\n").includes(about));
  if (named === undefined && about !== null && isAfterTracebacks(lines, about)) return null;
  return named ?? causes.findLast(({ location }) => location !== null) ?? causes.at(-1) ?? null;
}

/** Whether a program logged an exception, went on, and then ended with an error of one line. */
function isAfterTracebacks(lines: readonly string[], about: string): boolean {
  const begin = about.slice(0, namedMax);
  return lines.findLastIndex((line) => line.trimStart().startsWith(begin)) > lines.findLastIndex(isHeading);
}

/** @param at index of its heading. @param indent of the heading: exception groups indent their members. */
function tracebackAt(lines: readonly string[], at: number, indent: string): CauseExcerpt {
  const rest = lines.slice(at + 1).map((line) => line.slice(line.startsWith(indent) ? indent.length : 0));
  const end = rest.findIndex((line) => !line.startsWith("  "));
  const frames = ownFrames(rest.slice(0, end === -1 ? rest.length : end));
  const said = end === -1 ? [] : messageOf(rest.slice(end));
  const starts = frames.flatMap((line, index) => (frameLocation(line) === null ? [] : [index]));
  const shown = frames.slice(starts.at(-framesMax) ?? 0).slice(-(linesMax - 1 - said.length));
  const location = starts.map((index) => frameLocation(frames[index] ?? "")).findLast((one) => one?.isOwn === true);
  return {
    lines: ["Traceback (most recent call last):", ...shown, ...said.map(inArtifact)],
    said: said[0]?.trim() ?? "",
    location: location === undefined || location === null ? null : `${location.file}, line ${location.line}`,
  };
}

/** A message may have several lines, for example one per setting that is missing. */
function messageOf([first = "", ...others]: readonly string[]): string[] {
  const end = others.findIndex((line) => afterwards.test(line.slice(0, lineCharsMax)) || isHeading(line));
  return [first, ...others.slice(0, end === -1 ? others.length : end)].slice(0, saidMax);
}

/**
 * Returns the last stack of Node in a log, or the one of the named cause; null: it has none with a frame of the project. Warnings and
 * `console.trace` print stacks as well, which would hide a cause without such a frame.
 */
function stackOf(lines: readonly string[], about: string | null): CauseExcerpt | null {
  const isFrame = (line: string | undefined) => line !== undefined && /^\s+at \S/.test(line.slice(0, lineCharsMax));
  const stacks = lines.flatMap((line, at) => {
    if (!nodeError.test(line.slice(0, lineCharsMax)) || isWrapper(line)) return [];
    const rest = lines.slice(at + 1);
    const first = rest.findIndex((one) => isFrame(one));
    // A message of several lines stands between the name of the error and its frames.
    if (first === -1 || first >= saidMax) return [];
    const end = rest.findIndex((one, index) => index >= first && !isFrame(one));
    const frames = ownFrames(rest.slice(first, end === -1 ? rest.length : end));
    const location = frames.map(frameLocation).find((one) => one?.isOwn === true);
    if (location === undefined || location === null) return [];
    const shown = [line, ...rest.slice(0, first)].map(inArtifact);
    const where = `${location.file}, line ${location.line}`;
    return [{ lines: [...shown, ...frames.slice(0, framesMax)], said: line, location: where }];
  });
  const isOfCause = ({ lines: shown }: CauseExcerpt) =>
    about === null || shown.join("\n").includes(about) || about.startsWith(shown[0]?.slice(0, namedMax) ?? "");
  return stacks.findLast(isOfCause) ?? null;
}

/** Causes are shortened, so that only the first characters of an error and its cause are the same. */
const namedMax = 100;

const nodeError = /^(?:Uncaught )?[A-Z]\w*(?: \[\w+\])?: |^[A-Z]\w*(?:Error|Exception)$/;
