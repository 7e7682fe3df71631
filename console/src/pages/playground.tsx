import { useNavigate, useSearch } from "@tanstack/react-router";
import { Plus, Settings2 } from "lucide-react";
import { Suspense, useEffect, useRef, useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { useAgent } from "../agent/client.ts";
import { assistantIdOf, fromNewest, interruptsOf, resumeCommand } from "../agent/resume.ts";
import { lineageOf } from "../agent/timeline.ts";
import { type Assistant, type Message, messagesIn, type Thread, titleOf } from "../agent/types.ts";
import { useGraph } from "../agent/use-graph.ts";
import { useRun } from "../agent/use-run.ts";
import { isLost, useThread } from "../agent/use-thread.ts";
import { AgentGate } from "../parts/agent/agent-gate.tsx";
import { AgentHeaders } from "../parts/agent/agent-headers.tsx";
import { Chat } from "../parts/agent/chat.tsx";
import { GraphView } from "../parts/agent/lazy-graph.ts";
import { RevisionChoice } from "../parts/agent/revision-choice.tsx";
import { RunConfiguration } from "../parts/agent/run-configuration.tsx";
import { ServedBy } from "../parts/agent/served-by.tsx";
import { Tabs } from "../parts/fields.tsx";
import { usePageActs } from "../parts/page-acts.ts";
import { textOf } from "../server.ts";
import { IdleRevision } from "./idle-revision.tsx";
import { RequestForm } from "./request.tsx";
import { StatePane } from "./state-pane.tsx";
import "../style/threads.css";
import "../style/playground.css";

/** The playground of the revision in the address. Only the one that serves answers; the others show what is known of them. */
export function PlaygroundPart({ deployment }: { deployment: Deployment }) {
  const { revision } = useSearch({ strict: false });
  const { active_revision_id: active } = deployment;
  if (active !== null && revision !== undefined && revision !== active)
    return <IdleRevision key={revision} deployment={deployment} revisionId={revision} />;
  return <ServingPlayground deployment={deployment} />;
}

/** Chat with an agent beside its graph and its state. Other servers get a form for plain requests. */
function ServingPlayground({ deployment }: { deployment: Deployment }) {
  const [way, setWay] = useState<"agent" | "request">("agent");
  const request = <RequestForm deployment={deployment} />;
  const choice = (
    <Tabs
      label="Call type"
      value={way}
      onValue={setWay}
      options={[
        { value: "agent", text: "Agent" },
        { value: "request", text: "Request" },
      ]}
    />
  );
  return (
    <AgentGate deployment={deployment} otherwise={request}>
      {(assistants) =>
        way === "request" || assistants.length === 0 ? (
          <>
            {choice}
            {request}
          </>
        ) : (
          <Playground deployment={deployment} assistants={assistants} choice={choice} />
        )
      }
    </AgentGate>
  );
}

type Pane = "chat" | "graph" | "state";

/** The thread in the address, the run that is watched, and how both begin. */
function usePlayground(deployment: Deployment, assistants: readonly Assistant[]) {
  const agent = useAgent(deployment);
  const navigate = useNavigate();
  const { thread: threadId, checkpoint } = useSearch({ strict: false });
  const [picked, choose] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [config, setConfig] = useState<Record<string, unknown>>({});
  const { thread, history, runs } = useThread(agent, deployment.id, threadId);
  const { live, start, join, stop: stopRun, reset, watchedThread } = useRun(agent, deployment.id);
  // A thread goes on with the graph that ran it, whose checkpoints it has.
  const ranBy = assistantIdOf(thread.data, runs.data);
  const chosen = picked ?? ranBy ?? assistants[0]?.assistant_id ?? "";
  const go = (search: { thread?: string; checkpoint?: string }) =>
    navigate({
      to: "/o/$tenantId/host/deployments/$id/$part",
      params: { tenantId: deployment.tenant_id, id: deployment.id, part: "playground" },
      search,
    });
  // What was watched belongs to the thread that was shown.
  const shownThread = useRef(threadId);
  useEffect(() => {
    if (shownThread.current === threadId) return;
    shownThread.current = threadId;
    setProblem(null);
    // A new thread keeps the choice.
    if (threadId !== undefined) choose(null);
    if (threadId === undefined || watchedThread() !== threadId) reset();
  }, [threadId, reset, watchedThread]);
  // A run that was in progress when the page was loaded is watched from its start.
  const going = runs.data?.find(({ status }) => status === "running" || status === "pending");
  useEffect(() => {
    if (threadId === undefined || going === undefined || live.isRunning || watchedThread() !== undefined) return;
    void join(threadId, going).catch(() => undefined);
  }, [threadId, going, join, watchedThread, live.isRunning]);
  const report = (error: unknown) => setProblem(textOf(error));
  const createThread = async () => {
    const made = await agent.call<Thread>("POST", "/threads", {}).catch((error: unknown) => {
      report(error);
      throw error;
    });
    return made.thread_id;
  };
  const run = async (payload: Record<string, unknown>, shown?: Message[]) => {
    setProblem(null);
    const id = threadId ?? (await createThread());
    const running = start(id, {
      ...{ assistantId: chosen, payload: fromNewest(thread.data, { ...inThread(payload, id), ...config }) },
      ...(shown !== undefined && { shown }),
    });
    if (id !== threadId) {
      shownThread.current = id;
      void go({ thread: id });
    }
    await running;
  };
  const states = lineageOf(history.data ?? []);
  const stored = messagesIn(states.at(-1)?.values ?? thread.data?.values);
  // After a run the stored messages count: other clients add to them. A stopped run may have written more than is stored.
  const isLive = live.messages !== null && (live.isRunning || live.messages.length > stored.length);
  const messages = isLive ? (live.messages ?? stored) : stored;
  // An answer resumes the run, so its assistant must be known first.
  const waiting = ranBy === undefined && runs.isPending ? [] : interruptsOf(states.at(-1));
  const stop = () => stopRun().catch(report);
  const begin = () => {
    choose(chosen);
    void go({});
  };
  const shared = { agent, threadId, checkpoint, thread, live, stop, states, messages, waiting, problem, run, go };
  return { ...shared, begin, chosen, choose, config, setConfig };
}

/** Returns the body of a run with the thread in its checkpoint, as the agent API asks for it. */
function inThread(payload: Record<string, unknown>, threadId: string): Record<string, unknown> {
  const { checkpoint } = payload;
  return checkpoint === undefined ? payload : { ...payload, checkpoint: { ...checkpoint, thread_id: threadId } };
}

type Play = ReturnType<typeof usePlayground>;

function Playground(props: { deployment: Deployment; assistants: Assistant[]; choice: React.ReactNode }) {
  const { deployment, assistants, choice } = props;
  const play = usePlayground(deployment, assistants);
  const { agent, threadId, checkpoint, thread, live, states, messages, waiting, problem, run, go } = play;
  const [pane, setPane] = useState<Pane>(checkpoint === undefined ? "chat" : "state");
  return (
    <>
      <PlayBar deployment={deployment} play={play} assistants={assistants} choice={choice} />
      <ServedBy deployment={deployment} />
      <div className="only-phone pane-choice">
        <Tabs label="Pane" value={pane} onValue={setPane} options={panes} />
      </div>
      <div className={`play show-${pane}`}>
        <Chat
          agent={agent}
          deploymentId={deployment.id}
          assistantId={play.chosen}
          states={states}
          messages={messages}
          live={live}
          waiting={waiting}
          isFresh={threadId === undefined}
          onSend={run}
          onAnswer={(interrupt, answer) => run(resumeCommand(interrupt, waiting, answer))}
          onStop={play.stop}
          problem={problem ?? (isLost(thread) ? textOf(thread.error) : null)}
        />
        <GraphPane deployment={deployment} play={play} isWaiting={waiting.length > 0} />
        <StatePane
          key={threadId}
          agent={agent}
          threadId={threadId}
          states={states}
          liveValues={live.isRunning ? live.values : null}
          chosen={checkpoint}
          onChoose={(id) => {
            const search = threadId === undefined ? {} : { thread: threadId };
            void go(id === undefined ? search : { ...search, checkpoint: id });
          }}
          isRunning={live.isRunning}
          onRun={async (payload) => {
            await run(payload);
            if (threadId !== undefined) await go({ thread: threadId });
          }}
        />
      </div>
    </>
  );
}

const panes = [
  { value: "chat" as const, text: "Chat" },
  { value: "graph" as const, text: "Graph" },
  { value: "state" as const, text: "State" },
];

function PlayBar(props: { deployment: Deployment; play: Play; assistants: Assistant[]; choice: React.ReactNode }) {
  const { deployment, play, assistants, choice } = props;
  const { agent, threadId, thread, live, config, chosen } = play;
  const [isConfiguring, setConfiguring] = useState(false);
  const hint = "playground";
  usePageActs([
    { text: "Configuration of the next runs …", hint, act: () => setConfiguring(true) },
    ...(threadId === undefined || live.isRunning ? [] : [{ text: "New thread", hint, act: play.begin }]),
    ...(live.isRunning ? [{ text: "Stop the run", hint, act: () => void play.stop() }] : []),
  ]);
  // A node that is a graph itself is drawn as its own nodes, `outer:inner`.
  const drawn = (useGraph(deployment, play).data?.nodes ?? []).map(({ id }) => String(id).split(":", 1)[0] ?? "");
  const nodes = [...new Set(drawn)].filter((name) => !name.startsWith("__"));
  return (
    <div className="play-bar">
      <div className="row">
        {choice}
        <select aria-label="Assistant" value={chosen} onChange={(event) => play.choose(event.target.value)}>
          {assistants.map(({ assistant_id, graph_id, name }) => (
            <option key={assistant_id} value={assistant_id}>
              {name === undefined || name === graph_id || name === "Untitled" ? graph_id : `${name} (${graph_id})`}
            </option>
          ))}
          {assistants.every(({ assistant_id }) => assistant_id !== chosen) && (
            <option value={chosen}>Another one ({chosen.slice(0, 8)})</option>
          )}
        </select>
        <button type="button" title="Configuration" onClick={() => setConfiguring(true)}>
          <Settings2 size={14} /> <span className="word">Configuration</span>
          {Object.keys(config).length > 0 && <span className="tag">set</span>}
        </button>
        <AgentHeaders deploymentId={deployment.id} />
      </div>
      <div className="row">
        <RevisionChoice deployment={deployment} shown={deployment.active_revision_id ?? ""} />
        {threadId !== undefined && (
          <span className="softer clip">{thread.data === undefined ? threadId.slice(0, 8) : titleOf(thread.data)}</span>
        )}
        <button
          type="button"
          title="New thread"
          disabled={threadId === undefined || live.isRunning}
          onClick={play.begin}
        >
          <Plus size={14} /> <span className="word">New thread</span>
        </button>
      </div>
      {isConfiguring && (
        <RunConfiguration
          key={chosen}
          agent={agent}
          deploymentId={deployment.id}
          assistant={assistants.find(({ assistant_id }) => assistant_id === chosen)}
          nodes={nodes}
          config={config}
          onAssistant={(id) => {
            play.choose(id);
            play.setConfig({});
            setConfiguring(false);
          }}
          onClose={() => setConfiguring(false)}
          onSave={(value) => {
            play.setConfig(value);
            setConfiguring(false);
          }}
        />
      )}
    </div>
  );
}

function GraphPane({ deployment, play, isWaiting }: { deployment: Deployment; play: Play; isWaiting: boolean }) {
  const { live, states } = play;
  const graph = useGraph(deployment, play);
  const isWatched = live.isRunning || live.lastNode !== null;
  return (
    <section className="graph-pane" aria-label="Graph">
      {graph.isError && <p className="soft pane-note">The server does not describe its graph: {textOf(graph.error)}</p>}
      {graph.data !== undefined && (
        <Suspense>
          <GraphView
            graph={graph.data}
            nodes={isWatched ? live.nodes : nodesSoFar(states)}
            hasStarted={states.length > 0 || isWatched}
            isRunning={live.isRunning || isWaiting}
          />
        </Suspense>
      )}
    </section>
  );
}

/** Returns what the nodes of a thread did until its last checkpoint. */
function nodesSoFar(states: readonly ReturnType<typeof lineageOf>[number][]) {
  const nodes: Record<string, "done" | "waiting" | "failed"> = {};
  const from = states.findLastIndex(({ metadata }) => metadata?.source === "input");
  for (const state of states.slice(Math.max(0, from), -1)) for (const name of state.next ?? []) nodes[name] = "done";
  for (const task of states.at(-1)?.tasks ?? []) {
    if ((task.interrupts ?? []).length > 0) nodes[task.name] = "waiting";
    else if (task.error != null) nodes[task.name] = "failed";
  }
  return nodes;
}
