import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowLeft, Check, ChevronRight, GitFork, Play, SquareX } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { type Agent, AgentError, segment } from "../agent/client.ts";
import { assistantIdOf, interruptsOf, resumeCommand } from "../agent/resume.ts";
import { durationText, type Entry, errorText, lineageOf, timelineOf } from "../agent/timeline.ts";
import {
  type Interrupt,
  type Message,
  messagesIn,
  type Run,
  type Thread,
  type ThreadState,
  titleOf,
} from "../agent/types.ts";
import { useRun } from "../agent/use-run.ts";
import { InterruptForm } from "../parts/agent/interrupt-form.tsx";
import { JsonBlock, jsonOf } from "../parts/agent/json-text.tsx";
import { Line, MessageEntry } from "../parts/agent/message-entry.tsx";
import { ThreadRuns } from "../parts/agent/thread-runs.tsx";
import { ThreadLight, ThreadStatusText } from "../parts/agent/thread-status.tsx";
import { Tabs } from "../parts/fields.tsx";
import { Failure, Loading, Notice } from "../parts/notices.tsx";
import { Ago } from "../parts/time.tsx";

const historyMax = 100;
const pollMs = 4_000;

/** Reads one thread: its state, the checkpoints that led there, and its runs. */
export function useThread(agent: Agent, deploymentId: string, threadId: string | undefined) {
  const base = `/threads/${segment(threadId ?? "")}`;
  const key = ["agent", deploymentId, "thread", threadId];
  const isChosen = threadId !== undefined;
  const thread = useQuery({
    queryKey: [...key, "thread"],
    queryFn: async ({ signal }) => ({
      thread_id: threadId ?? "",
      ...(await agent.call<Partial<Thread>>("GET", base, undefined, signal)),
    }),
    enabled: isChosen,
    refetchInterval: ({ state }) => (isGone(state.error) ? false : pollMs),
  });
  const history = useQuery({
    queryKey: [...key, "history"],
    queryFn: async ({ signal }) =>
      listOf<ThreadState>(await agent.call("POST", `${base}/history`, { limit: historyMax }, signal)),
    enabled: isChosen,
  });
  const runs = useQuery({
    queryKey: [...key, "runs"],
    queryFn: async ({ signal }) => listOf<Run>(await agent.call("GET", `${base}/runs?limit=50`, undefined, signal)),
    enabled: isChosen,
  });
  // Another client may go on with the thread.
  const changedAt = `${thread.data?.updated_at} ${thread.data?.status}`;
  const seen = useRef<string | null>(null);
  useEffect(() => {
    if (thread.data === undefined || seen.current === changedAt) return;
    const isFirst = seen.current === null;
    seen.current = changedAt;
    if (isFirst) return;
    void history.refetch();
    void runs.refetch();
  }, [changedAt, thread.data, history.refetch, runs.refetch]);
  return { thread, history, runs };
}

/** Agents are foreign servers: what should be a list may be anything. */
const listOf = <T,>(found: unknown): T[] => (Array.isArray(found) ? (found as T[]) : []);

const isGone = (error: unknown) => error instanceof AgentError && error.status === 404;

/** Returns whether a thread cannot be shown. One that is shown outlives a failed poll, with what the user typed there. */
export const isLost = ({ error, data }: { error: unknown; data: unknown }): boolean =>
  error !== null && (data === undefined || isGone(error));

type View = "timeline" | "runs" | "state";
const views = [
  { value: "timeline", text: "Timeline" },
  { value: "runs", text: "Runs" },
  { value: "state", text: "State" },
] as const;

/** One thread: what happened, its runs, and its state. Its questions are answered in place. */
export function ThreadView(props: { deployment: Deployment; agent: Agent; threadId: string }) {
  const { deployment, agent, threadId } = props;
  const { view = "timeline" } = useSearch({ strict: false });
  const navigate = useNavigate();
  const { thread, history, runs } = useThread(agent, deployment.id, threadId);
  const running = useRun(agent, deployment.id);
  const params = { tenantId: deployment.tenant_id, id: deployment.id };
  const failed = [thread, history].find(isLost);
  if (failed !== undefined)
    return (
      <section className="thread-view blank" aria-label="Thread">
        {isGone(thread.error) ? (
          <Gone params={params} />
        ) : (
          <Failure error={failed.error} retry={() => void failed.refetch()} />
        )}
      </section>
    );
  if (thread.data === undefined || history.data === undefined)
    return (
      <section className="thread-view" aria-label="Thread">
        <Loading what="the thread" />
      </section>
    );
  const states = lineageOf(history.data);
  const last = states.at(-1);
  const title = titleOf({ ...thread.data, values: last?.values ?? thread.data.values ?? null });
  const assistantId = assistantIdOf(thread.data, runs.data);
  const answer = async (interrupt: Interrupt, value: unknown) => {
    if (assistantId === undefined) throw new Error("The server does not say which graph ran this thread.");
    await running.start(threadId, { assistantId, payload: resumeCommand(interrupt, interruptsOf(last), value) });
  };
  const to = "/o/$tenantId/host/deployments/$id/$part" as const;
  return (
    <section className="thread-view" aria-label={title}>
      <header>
        <Link
          className="button quiet icon-only small only-phone"
          to={to}
          params={{ ...params, part: "threads" }}
          aria-label="All threads"
        >
          <ArrowLeft size={16} />
        </Link>
        <div className="thread-title">
          <h2 className="clip">{title}</h2>
          <p className="row softer">
            <ThreadStatusText status={running.live.isRunning ? "busy" : thread.data.status} />
            <span className="mono">{threadId.slice(0, 8)}</span>
            <span>
              {runs.data === undefined ? "" : `${runs.data.length} ${runs.data.length === 1 ? "run" : "runs"}`}
            </span>
            <Tokens messages={messagesIn(last?.values)} />
          </p>
        </div>
        <Tabs
          label="Show"
          value={view as View}
          onValue={(value) =>
            void navigate({ to, params: { ...params, part: "threads" }, search: { thread: threadId, view: value } })
          }
          options={[...views]}
        />
        <Link className="button small" to={to} params={{ ...params, part: "playground" }} search={{ thread: threadId }}>
          <Play size={13} /> Open in playground
        </Link>
      </header>
      {view === "timeline" && (
        <Timeline
          entries={timelineOf(states)}
          states={states}
          live={running.live}
          answer={answer}
          params={params}
          threadId={threadId}
          deployment={deployment}
          isCut={history.data.length >= historyMax}
          error={thread.data.status === "error" ? thread.data.error : null}
        />
      )}
      {view === "runs" && (
        <ThreadRuns {...{ params, threadId }} runs={runs.data ?? []} error={thread.data.error} history={history.data} />
      )}
      {view === "state" && (
        <div className="thread-body">
          <JsonBlock label="State of the thread" value={last?.values ?? thread.data.values ?? {}} />
          {thread.data.metadata && <JsonBlock label="Metadata of the thread" value={thread.data.metadata} />}
        </div>
      )}
    </section>
  );
}

function Gone({ params }: Pick<TimelineProps, "params">) {
  return (
    <Notice kind="warn">
      This agent has no such thread. It may have been deleted, or the agent may have lost it with a restart.{" "}
      <Link to="/o/$tenantId/host/deployments/$id/$part" params={{ ...params, part: "threads" }}>
        All threads
      </Link>
    </Notice>
  );
}

function Tokens({ messages }: { messages: readonly Message[] }) {
  const sum = messages.reduce((total, { usage_metadata }) => total + (usage_metadata?.total_tokens ?? 0), 0);
  return sum === 0 ? null : <span>{sum.toLocaleString("en")} tokens</span>;
}

interface TimelineProps {
  entries: Entry[];
  states: ThreadState[];
  live: ReturnType<typeof useRun>["live"];
  answer: (interrupt: Interrupt, value: unknown) => Promise<void>;
  params: { tenantId: string; id: string };
  threadId: string;
  deployment: Deployment;
  isCut: boolean;
  error: unknown;
}

function Timeline(props: TimelineProps) {
  const { entries, states, live, answer, params, threadId, isCut, error } = props;
  const all = messagesIn(states.at(-1)?.values);
  const written = live.isRunning ? (live.messages ?? []).slice(all.length) : [];
  const known = [...all, ...written];
  const hasError = entries.some(({ kind }) => kind === "error");
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <ol className="timeline" aria-label="What happened" tabIndex={0}>
      {isCut && <li className="softer">The newest {states.length} steps. Earlier ones are not shown.</li>}
      {entries.map((entry) => (
        <TimelineEntry key={entry.key} {...{ entry, known, answer, params, threadId, isRunning: live.isRunning }} />
      ))}
      {written.map((message, at) => (
        <MessageEntry
          key={message.id ?? `written-${at}`}
          message={message}
          all={known}
          isWriting={at === written.length - 1}
        />
      ))}
      {live.isRunning && live.lastNode !== null && (
        <Line kind="node now" icon={<ThreadLight status="busy" />} label="Node">
          <p className="tl-line">
            <b className="mono">{live.lastNode}</b> <span className="softer">running</span>
          </p>
        </Line>
      )}
      {(live.error !== null || (error != null && !hasError)) && (
        <Line kind="node failed" icon={<SquareX size={12} />} label="Error">
          <pre className="tl-error">{live.error ?? errorText(error)}</pre>
        </Line>
      )}
    </ol>
  );
}

interface EntryProps extends Pick<TimelineProps, "answer" | "params" | "threadId"> {
  entry: Entry;
  known: Message[];
  isRunning: boolean;
}

function TimelineEntry({ entry, known, answer, params, threadId, isRunning }: EntryProps) {
  if (entry.kind === "message") return <MessageEntry message={entry.message} all={known} />;
  if (entry.kind === "run")
    return (
      <li className="run-head">
        <span>Run {entry.number}</span>
        {entry.at !== null && (
          <span className="softer">
            <Ago at={entry.at} />
          </span>
        )}
      </li>
    );
  if (entry.kind === "node") return <NodeEntry {...{ entry, params, threadId }} />;
  if (entry.kind === "error")
    return (
      <Line kind="node failed" icon={<SquareX size={12} />} label="Error">
        <p className="tl-line">
          <b className="mono">{entry.name}</b> <span className="bad-text">failed</span>
        </p>
        <pre className="tl-error">{entry.text}</pre>
      </Line>
    );
  if (isRunning) return null;
  return (
    <Line kind="node wait" icon={<ThreadLight status="interrupted" isSilent />} label="Waiting for you">
      <p className="tl-line">
        <b className="mono">{entry.name}</b> <span className="softer">waiting for an answer</span>
      </p>
      {(entry.task.interrupts ?? []).map((interrupt, at) => (
        <InterruptForm key={interrupt.id ?? at} interrupt={interrupt} onAnswer={(value) => answer(interrupt, value)} />
      ))}
    </Line>
  );
}

function NodeEntry({
  entry,
  params,
  threadId,
}: { entry: Entry & { kind: "node" } } & Pick<TimelineProps, "params" | "threadId">) {
  const [isOpen, setOpen] = useState(false);
  const { name, tookMs, changed, checkpointId } = entry;
  return (
    <Line kind="node done" icon={<Check size={12} />} label="Node">
      <div className="row tl-node">
        <button type="button" className="tl-line" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <b className="mono">{name}</b>
          {tookMs !== null && <span className="softer">{durationText(tookMs)}</span>}
          <ChevronRight size={13} />
        </button>
        {checkpointId !== undefined && (
          <Link
            className="button quiet small fork"
            to="/o/$tenantId/host/deployments/$id/$part"
            params={{ ...params, part: "playground" }}
            search={{ thread: threadId, checkpoint: checkpointId }}
          >
            <GitFork size={12} /> Fork before {name}
          </Link>
        )}
      </div>
      {isOpen && (
        <pre className="json boxed">
          {Object.keys(changed).length === 0 ? "Changed nothing in the state." : jsonOf(changed)}
        </pre>
      )}
    </Line>
  );
}
