import { useEffect, useRef, useState } from "react";
import type { FollowLogs } from "../../../src/client/client.ts";
import { isPassing } from "../../../src/client/failure.ts";
import type { LogEntry } from "../../../src/contract/logs/log.ts";
import { textOf } from "../server.ts";
import { useSession } from "../session.tsx";
import { useIsShown } from "../shown.ts";
import { useToasts } from "./toasts.tsx";

/** Lines kept on the page; older ones stay at the server. */
const linesMax = 5_000;

/** Lines that come together are shown together. A timer runs on in a background tab, if slowly; a frame would not. */
const gatherMs = 100;

/** A server that stayed away for longer than a restart takes is looked for so often. */
const againMs = 5_000;

export interface Followed {
  lines: LogEntry[];
  isOver: boolean;
  problem: string | null;
}

/** The lines of a log, those to come included, while the page is shown; what came meanwhile is there when it is again. */
export function useLog(question: FollowLogs, tail: number): Followed {
  const { client } = useSession();
  const [followed, setFollowed] = useState<Followed>({ lines: [], isOver: false, problem: null });
  const isShown = useIsShown();
  const asked = JSON.stringify(question);
  const lines = useRef(followed.lines);
  lines.current = followed.lines;
  const hasEnded = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: these are what makes it another log.
  useEffect(() => {
    hasEnded.current = false;
    lines.current = [];
    setFollowed({ lines: [], isOver: false, problem: null });
  }, [client, asked, tail]);
  useEffect(() => {
    if (!isShown || hasEnded.current) return;
    const ending = new AbortController();
    let gathered: LogEntry[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let again: ReturnType<typeof setTimeout> | undefined;
    let isFirst = true;
    const show = (change: Partial<Followed> = {}) => {
      timer = undefined;
      const added = gathered;
      // What was shown before the page was left is among the first lines, unless so many came that it is not.
      const isAnew = isFirst && added.length > 0;
      gathered = [];
      isFirst &&= !isAnew;
      setFollowed((before) => {
        const earlier = isAnew ? [] : before.lines;
        return { ...before, problem: null, ...change, lines: [...earlier, ...added].slice(-linesMax) };
      });
    };
    const follow = async () => {
      const options = { tail: Math.max(tail, lines.current.length), signal: ending.signal };
      for await (const line of client.followLogs(JSON.parse(asked) as FollowLogs, options)) {
        gathered.push(line);
        timer ??= setTimeout(show, gatherMs);
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
        if (isPassing(error)) again = setTimeout(keepFollowing, againMs);
      });
    };
    keepFollowing();
    return () => {
      ending.abort();
      clearTimeout(timer);
      clearTimeout(again);
    };
  }, [client, asked, tail, isShown]);
  return followed;
}

/** A numbered line of the builder begins a step: `Step 2/4: Install`. */
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

/** How programs begin to say what is wrong: compilers, package managers, what was thrown. */
const errorForm = /^\s*(npm (ERR!|error)\b|[\w.]*(Error|Exception)\b|fatal:|error\b)|: error\b/i;

/** Of the step that failed the line where that began; the builder's own words, the last ones, say only that it did. */
function firstErrorOf(lines: readonly LogEntry[]): LogEntry | undefined {
  const end = lines.findIndex(isError);
  if (end < 0) return undefined;
  const begin = lines.findLastIndex(({ message }, index) => index < end && stepStart.test(message)) + 1;
  return lines.slice(begin, end).find(({ message }) => errorForm.test(message)) ?? lines[end];
}

/** A build's log: steps that are done are folded, the one under way and the one with the first error are open. */
export function BuildLog({ question }: { question: FollowLogs }) {
  const { lines, isOver, problem } = useLog(question, linesMax);
  const steps = stepsOf(lines);
  const firstBad = firstErrorOf(lines);
  return (
    <section className="log" aria-label="Build log" aria-busy={!isOver}>
      {problem && <p role="alert">{problem}</p>}
      {lines.length === 0 && <p className="soft">{isOver ? "This revision wrote no build log." : "No lines yet …"}</p>}
      {steps.map(({ title, lines: own }, index) => {
        const isOpen =
          own.some((line) => line === firstBad) || title === firstBad || (!isOver && index === steps.length - 1);
        return (
          <details key={`${title.id} ${isOpen}`} open={isOpen}>
            <summary>
              <Line line={title} isFirstBad={title === firstBad} isTitle />
            </summary>
            {own.map((line) => (
              <Line key={line.id} line={line} isFirstBad={line === firstBad} />
            ))}
          </details>
        );
      })}
      <Download lines={lines} name={`build-${question.revision_id ?? ""}.log`} />
    </section>
  );
}

/** Lines of the replicas, the newest at the end, which stays in view until one scrolls up. */
export function RuntimeLog({ question }: { question: FollowLogs }) {
  const { lines, problem } = useLog(question, 500);
  const [replica, setReplica] = useState("");
  const [isFollowing, setFollowing] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const replicas = [...new Set(lines.flatMap((line) => line.replica ?? []))];
  const shown = replica === "" ? lines : lines.filter((line) => line.replica === replica);
  // Not how many: of a full page that stays the same.
  const newest = shown.at(-1)?.id;
  useEffect(() => {
    if (isFollowing && newest !== undefined && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [newest, isFollowing]);
  return (
    <>
      <div className="row">
        <label className="row">
          <input type="checkbox" checked={isFollowing} onChange={(event) => setFollowing(event.target.checked)} />{" "}
          Follow
        </label>
        {replicas.length > 1 && (
          <select aria-label="Replica" value={replica} onChange={(event) => setReplica(event.target.value)}>
            <option value="">All replicas</option>
            {replicas.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
        <Download lines={shown} name={`log-${question.deployment_id}.log`} />
      </div>
      {problem && <p role="alert">{problem}</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard. */}
      <div className="log scroll" ref={box} tabIndex={0} role="log" aria-label="Log lines">
        {shown.length === 0 && <p className="soft">No lines yet. They appear here as they are written.</p>}
        {shown.map((line) => (
          <Line key={line.id} line={line} isFirstBad={false} />
        ))}
      </div>
    </>
  );
}

interface LineProps {
  line: LogEntry;
  isFirstBad: boolean;
  /** Of a step: the whole of it is what one clicks. */
  isTitle?: boolean;
}

function Line({ line, isFirstBad, isTitle = false }: LineProps) {
  const tone = isError(line) ? "bad" : line.level === "WARNING" ? "warn" : line.level === "DEBUG" ? "soft" : "";
  const time = new Date(line.timestamp).toLocaleTimeString([], { hour12: false });
  return (
    <div className={`line ${tone} ${isFirstBad ? "first-bad" : ""}`} id={`line-${line.id}`}>
      {isTitle ? (
        <span className="soft">{time}</span>
      ) : (
        <a href={`${location.pathname}${location.search}#line-${line.id}`} title={line.timestamp}>
          {time}
        </a>
      )}{" "}
      {line.message}
    </div>
  );
}

function Download({ lines, name }: { lines: LogEntry[]; name: string }) {
  const { say } = useToasts();
  const save = () => {
    const text = lines.map(({ timestamp, level, message }) => `${timestamp} ${level} ${message}\n`);
    const url = URL.createObjectURL(new Blob(text, { type: "text/plain" }));
    Object.assign(document.createElement("a"), { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1_000);
    say(`${lines.length} lines saved.`);
  };
  return (
    <button type="button" className="plain" onClick={save} disabled={lines.length === 0}>
      Download
    </button>
  );
}
