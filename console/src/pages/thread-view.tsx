import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowLeft, Play, SquareX } from "lucide-react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Agent } from "../agent/client.ts";
import { assistantIdOf, fromNewest, interruptsOf, resumeCommand } from "../agent/resume.ts";
import { type Entry, errorText, lineageOf, timelineOf } from "../agent/timeline.ts";
import { endOf, type Interrupt, type Message, messagesIn, type ThreadState, titleOf } from "../agent/types.ts";
import { useRun } from "../agent/use-run.ts";
import { historyMax, isGone, isLost, useThread } from "../agent/use-thread.ts";
import { InterruptForm } from "../parts/agent/interrupt-form.tsx";
import { JsonBlock } from "../parts/agent/json-text.tsx";
import { Line, MessageEntry } from "../parts/agent/message-entry.tsx";
import { NodeEntry } from "../parts/agent/node-entry.tsx";
import { ThreadRuns } from "../parts/agent/thread-runs.tsx";
import { ThreadLight, ThreadStatusText } from "../parts/agent/thread-status.tsx";
import { Tabs } from "../parts/fields.tsx";
import { Failure, Loading, Notice } from "../parts/notices.tsx";
import { Ago } from "../parts/time.tsx";

type View = "timeline" | "runs" | "state";
const views = [
  { value: "timeline", text: "Timeline" },
  { value: "runs", text: "Runs" },
  { value: "state", text: "State" },
] as const;

const to = "/o/$tenantId/host/deployments/$id/$part" as const;

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
    const payload = fromNewest(thread.data, resumeCommand(interrupt, interruptsOf(last), value));
    await running.start(threadId, { assistantId, payload });
  };
  const onView = (value: View) =>
    void navigate({ to, params: { ...params, part: "threads" }, search: { thread: threadId, view: value } });
  return (
    <section className="thread-view" aria-label={title}>
      <ThreadHead
        {...{ title, view, params, threadId, onView }}
        status={running.live.isRunning ? "busy" : thread.data.status}
        runs={runs.data?.length}
        messages={messagesIn(last?.values)}
      />
      {view === "timeline" && (
        <Timeline
          agent={agent}
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
        <ThreadRuns
          {...{ agent, params, threadId }}
          thread={thread.data}
          runs={runs.data ?? []}
          error={thread.data.error}
          history={history.data}
        />
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

interface HeadProps {
  title: string;
  status: string | undefined;
  runs: number | undefined;
  messages: readonly Message[];
  view: View;
  onView: (view: View) => void;
  params: { tenantId: string; id: string };
  threadId: string;
}

function ThreadHead({ title, status, runs, messages, view, onView, params, threadId }: HeadProps) {
  return (
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
          <ThreadStatusText status={status} />
          <span className="mono" title={threadId}>
            {endOf(threadId)}
          </span>
          <span>{runs === undefined ? "" : `${runs} ${runs === 1 ? "run" : "runs"}`}</span>
          <Tokens messages={messages} />
        </p>
      </div>
      <Tabs label="Show" value={view} onValue={onView} options={[...views]} />
      <Link
        className="button small"
        to={to}
        params={{ ...params, part: "playground" }}
        search={{ thread: threadId }}
        aria-label="Open in playground"
      >
        <Play size={13} /> <span className="wide-text">Open in playground</span>
      </Link>
    </header>
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
  agent: Agent;
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
  const { agent, entries, states, live, answer, params, threadId, isCut, error } = props;
  const all = messagesIn(states.at(-1)?.values);
  const written = live.isRunning ? (live.messages ?? []).slice(all.length) : [];
  const known = [...all, ...written];
  const hasError = entries.some(({ kind }) => kind === "error");
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <ol className="timeline" aria-label="What happened" tabIndex={0}>
      {isCut && <li className="softer">The newest {states.length} steps. Earlier ones are not shown.</li>}
      {entries.map((entry) => (
        <TimelineEntry
          key={entry.key}
          {...{ agent, entry, known, answer, params, threadId, isRunning: live.isRunning }}
        />
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
            <b className="mono">{live.lastNode.replaceAll(":", " › ")}</b> <span className="softer">running</span>
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

interface EntryProps extends Pick<TimelineProps, "agent" | "answer" | "params" | "threadId"> {
  entry: Entry;
  known: Message[];
  isRunning: boolean;
}

function TimelineEntry({ agent, entry, known, answer, params, threadId, isRunning }: EntryProps) {
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
  if (entry.kind === "node") return <NodeEntry {...{ agent, entry, params, threadId }} />;
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
