import { Download as DownloadIcon } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { FollowLogs } from "../../../src/client/client.ts";
import { isPassing } from "../../../src/client/failure.ts";
import type { LogEntry } from "../../../src/contract/logs/log.ts";
import { reusedArtifactLine } from "../../../src/domain/reused-artifact.ts";
import { textOf } from "../server.ts";
import { useSession } from "../session.tsx";
import { useIsVisible } from "../visibility.ts";
import { Light } from "./status.tsx";
import { durationText } from "./text.ts";
import { useToasts } from "./toasts.tsx";

/** The maximum number of lines on the page. The server keeps older ones. */
const linesMax = 5_000;

/** Lines within this time are shown together. A timer also fires in background tabs, if slowly; an animation frame does not. */
const batchMs = 100;

/** The interval of new attempts when the server is unreachable for longer than a restart takes. */
const retryMs = 5_000;

export interface Followed {
  lines: LogEntry[];
  isOver: boolean;
  problem: string | null;
}

/** Follows a log while the page is visible. When the page becomes visible again, it shows the lines written meanwhile. */
export function useLog(question: FollowLogs, tail: number): Followed {
  const { client } = useSession();
  const [followed, setFollowed] = useState<Followed>({ lines: [], isOver: false, problem: null });
  const isVisible = useIsVisible();
  const asked = JSON.stringify(question);
  const lines = useRef(followed.lines);
  lines.current = followed.lines;
  const hasEnded = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: these values identify the log.
  useEffect(() => {
    hasEnded.current = false;
    lines.current = [];
    setFollowed({ lines: [], isOver: false, problem: null });
  }, [client, asked, tail]);
  useEffect(() => {
    if (!isVisible || hasEnded.current) return;
    const ending = new AbortController();
    let batch: LogEntry[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    let isFirst = true;
    const show = (change: Partial<Followed> = {}) => {
      timer = undefined;
      const added = batch;
      // The first lines of a new attempt include the lines that are shown, unless too many came in between.
      const replacesEarlier = isFirst && added.length > 0;
      batch = [];
      isFirst &&= !replacesEarlier;
      setFollowed((before) => {
        const earlier = replacesEarlier ? [] : before.lines;
        return { ...before, problem: null, ...change, lines: [...earlier, ...added].slice(-linesMax) };
      });
    };
    const follow = async () => {
      const options = { tail: Math.max(tail, lines.current.length), signal: ending.signal };
      for await (const line of client.followLogs(JSON.parse(asked) as FollowLogs, options)) {
        batch.push(line);
        timer ??= setTimeout(show, batchMs);
      }
      hasEnded.current = true;
      show({ isOver: true });
    };
    const keepFollowing = () => {
      setFollowed((before) => ({ ...before, problem: null }));
      follow().catch((error: unknown) => {
        if (ending.signal.aborted) return;
        clearTimeout(timer);
        show({ problem: textOf(error) });
        isFirst = true;
        if (isPassing(error)) retry = setTimeout(keepFollowing, retryMs);
      });
    };
    keepFollowing();
    return () => {
      ending.abort();
      clearTimeout(timer);
      clearTimeout(retry);
    };
  }, [client, asked, tail, isVisible]);
  return followed;
}

/** The builder starts each step with a numbered line such as `Step 2/4: Install`. */
const stepStart = /^Step \d+\/\d+: /;
const isError = ({ level }: LogEntry) => level === "ERROR" || level === "CRITICAL";

interface Step {
  title: LogEntry;
  lines: LogEntry[];
}

function stepsOf(lines: readonly LogEntry[]): Step[] {
  const steps: Step[] = [];
  for (const line of lines) {
    const last = steps.at(-1);
    if (last === undefined || stepStart.test(line.message)) steps.push({ title: line, lines: [] });
    else last.lines.push(line);
  }
  return steps;
}

/** How compilers, package managers and uncaught exceptions begin an error message. */
const errorForm = /^\s*(npm (ERR!|error)\b|[\w.]*(Error|Exception)\b|fatal:|error\b)|: error\b/i;

/** Returns the line where the failure began. The builder's last lines say only that the step failed. */
function firstErrorOf(lines: readonly LogEntry[]): LogEntry | undefined {
  const end = lines.findIndex(isError);
  if (end < 0) return undefined;
  const begin = lines.findLastIndex(({ message }, index) => index < end && stepStart.test(message)) + 1;
  return lines.slice(begin, end).find(({ message }) => errorForm.test(message)) ?? lines[end];
}

/** A build log. Finished steps are folded. The current step and the step with the first error are open. */
export function BuildLog({
  question,
  of,
  isBrief = false,
  builder,
}: {
  question: FollowLogs;
  /** The number of its revision, because a page may show several logs. */
  of?: string;
  /** Expects no build: shows nothing until there is more than a sentence. */
  isBrief?: boolean;
  /** Shown where the log says that another revision built the artifact. */
  builder?: ReactNode;
}) {
  const { lines, isOver, problem } = useLog(question, linesMax);
  const name = of === undefined ? "Build log" : `Build log of revision ${of}`;
  const steps = stepsOf(lines);
  const firstBad = firstErrorOf(lines);
  const [only] = lines;
  const isSentence = lines.length === 1 && only !== undefined && !stepStart.test(only.message) && !isError(only);
  if (problem === null && (isBrief || isOver) && (isSentence || (isBrief && lines.length === 0)))
    return (
      <section aria-label={name} aria-busy={!isOver}>
        {only !== undefined && (
          <p className="softer">
            {only.message} {only.message === reusedArtifactLine && builder}
          </p>
        )}
      </section>
    );
  const numbers = new Map(lines.map(({ id }, index) => [id, index + 1]));
  const lineOf = (line: LogEntry) => (
    <Line key={line.id} line={line} isFirstBad={line === firstBad} number={numbers.get(line.id)} />
  );
  return (
    <section className="log build-log" aria-label={name} aria-busy={!isOver}>
      <div className="build-log-head">
        <h3>Build log</h3>
        {lines.length > 0 && (
          <span className="softer">
            {lines.length.toLocaleString("en")} {lines.length === 1 ? "line" : "lines"}
          </span>
        )}
        <Download lines={lines} name={`build-${question.revision_id ?? ""}.log`} />
      </div>
      {problem && <p role="alert">{problem}</p>}
      {lines.length === 0 && <p className="soft">{isOver ? "This revision has no build log." : "No lines yet …"}</p>}
      {steps.map((step, index) => {
        const { title, lines: own } = step;
        if (!stepStart.test(title.message)) return [title, ...own].map(lineOf);
        const isLast = index === steps.length - 1;
        const isBad = title === firstBad || own.some((line) => line === firstBad);
        const isRunning = isLast && !isOver;
        const isOpen = isBad || isRunning;
        return (
          <details key={`${title.id} ${isOpen}`} open={isOpen}>
            <summary id={`line-${title.id}`} className={isBad ? "bad" : ""}>
              <StepMark state={isBad ? "failed" : isRunning ? "running" : "done"} />
              <span>{title.message.replace(stepStart, "")}</span>
              <small title={title.timestamp}>{isRunning ? "" : stepTookText(step, steps[index + 1])}</small>
            </summary>
            {own.map(lineOf)}
          </details>
        );
      })}
      {lines.some(({ message }) => message === reusedArtifactLine) && <p>{builder}</p>}
    </section>
  );
}

/** A shorter time would read `0.0 s`. */
const shortMs = 100;

const stepMarks = {
  done: { light: "live", word: "done" },
  failed: { light: "failed", word: "failed" },
  running: { light: "deploying", word: "in progress" },
};

function StepMark({ state }: { state: keyof typeof stepMarks }) {
  const { light, word } = stepMarks[state];
  return (
    <span>
      <Light of={light} />
      <span className="sr">{word}: </span>
    </span>
  );
}

/** Returns the time until the next step began, or until the last line of the last step. */
function stepTookText({ title, lines }: Step, next: Step | undefined): string {
  const end = next?.title ?? lines.at(-1);
  if (end === undefined) return "";
  const ms = Date.parse(end.timestamp) - Date.parse(title.timestamp);
  return ms < shortMs ? "< 0.1 s" : durationText(ms);
}

interface LineProps {
  line: LogEntry;
  isFirstBad: boolean;
  /** Number of the line in a log that the page reads from its start. Absent: the line shows its time. */
  number?: number | undefined;
}

function Line({ line, isFirstBad, number }: LineProps) {
  const tone = isError(line) ? "bad" : line.level === "WARNING" ? "warn" : line.level === "DEBUG" ? "soft" : "";
  return (
    <div className={`line ${tone} ${isFirstBad ? "first-bad" : ""}`} id={`line-${line.id}`}>
      <a href={`${location.pathname}${location.search}#line-${line.id}`} title={line.timestamp}>
        {number ?? new Date(line.timestamp).toLocaleTimeString([], { hourCycle: "h23" })}
      </a>{" "}
      <span>{line.message.replace(/ Last lines:$/, "")}</span>
    </div>
  );
}

/** A button that saves the shown lines as a file. */
export function Download<L extends LogEntry>(props: {
  lines: readonly L[];
  name: string;
  /** The text of a line, if it is more than the message. */
  textOf?: (line: L) => string;
}) {
  const { lines, name, textOf = ({ message }) => message } = props;
  const { notify } = useToasts();
  const save = () => {
    const text = lines.map((line) => `${line.timestamp} ${line.level} ${textOf(line)}\n`);
    const url = URL.createObjectURL(new Blob(text, { type: "text/plain" }));
    Object.assign(document.createElement("a"), { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1_000);
    notify(`Saved ${lines.length} lines.`);
  };
  return (
    <button
      type="button"
      className="quiet small download"
      aria-label="Download"
      title="Download"
      onClick={save}
      disabled={lines.length === 0}
    >
      <DownloadIcon size={14} /> <span>Download</span>
    </button>
  );
}
