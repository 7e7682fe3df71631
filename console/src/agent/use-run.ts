import { useCallback, useEffect, useRef, useState } from "react";
import { queries, textOf } from "../server.ts";
import { type Agent, AgentError, segment } from "./client.ts";
import { errorText } from "./timeline.ts";
import { authorOf, type Message, messagesIn, type Run, textOfMessage, type Values } from "./types.ts";

export type NodePhase = "now" | "done" | "failed" | "waiting";

/** What a run has done so far, as its events told. */
export interface Live {
  isRunning: boolean;
  /** null: no run has been watched on this page. */
  messages: Message[] | null;
  values: Values | null;
  nodes: Record<string, NodePhase>;
  /** The node that runs or ran last. */
  lastNode: string | null;
  error: string | null;
}

const nothing: Live = { isRunning: false, messages: null, values: null, nodes: {}, lastNode: null, error: null };

/** `tasks` says when a node begins. Servers that do not know it answer 4xx, and get the modes without it and without subgraphs. */
const modes = ["values", "updates", "messages-tuple"];

export interface RunRequest {
  assistantId: string;
  /** Body of the run beside the assistant: its input, a command, a checkpoint, a configuration. */
  payload: Record<string, unknown>;
  /** The messages to show until the agent sends its own. */
  shown?: Message[];
}

interface Watched {
  ending: AbortController;
  threadId: string;
  runId: string | null;
}

/** Runs an agent in threads, and watches the run of one of them. */
export function useRun(agent: Agent, deploymentId: string) {
  const { live, watch, watching, followed, reset } = useWatch(deploymentId);
  const start = useCallback(
    async (threadId: string, { assistantId, payload, shown }: RunRequest) => {
      const path = `/threads/${segment(threadId)}/runs/stream`;
      const body = (stream_mode: string[]) => ({
        ...{ assistant_id: assistantId, ...payload, stream_mode },
        ...{ stream_resumable: true, on_disconnect: "continue" },
        ...(stream_mode.includes("tasks") && { stream_subgraphs: true }),
      });
      const begun = shown === undefined ? {} : { messages: shown };
      const open = (list: string[]) => (signal: AbortSignal) => agent.stream(path, { body: body(list), signal });
      await watch(threadId, begun, open([...modes, "tasks"])).catch((error: unknown) => {
        if (!(error instanceof AgentError) || (error.status !== 400 && error.status !== 422)) throw error;
        return watch(threadId, begun, open(modes));
      });
    },
    [agent, watch],
  );

  /** Watches a run that another page began, from its first event. */
  const join = useCallback(
    async (threadId: string, { run_id: runId }: Run) => {
      if (followed.current === runId) return;
      const path = `/threads/${segment(threadId)}/runs/${segment(runId)}/stream`;
      await watch(threadId, {}, (signal) => agent.stream(path, { lastId: "-1", signal }), runId);
    },
    [agent, watch, followed],
  );

  const stop = useCallback(async () => {
    const { threadId, runId } = watching.current ?? {};
    if (threadId === undefined || runId == null) return;
    await agent.call("POST", `/threads/${segment(threadId)}/runs/${segment(runId)}/cancel?wait=false&action=interrupt`);
  }, [agent, watching]);
  const watchedThread = useCallback(() => watching.current?.threadId, [watching]);
  return { live, start, join, stop, reset, watchedThread };
}

function useWatch(deploymentId: string) {
  const [live, setLive] = useState<Live>(nothing);
  const watching = useRef<Watched | null>(null);
  /** The run that was followed to its end. A server may still list it as running, so it is not joined again. */
  const followed = useRef<string | null>(null);
  useEffect(() => () => watching.current?.ending.abort(), []);
  const watch = useCallback(
    async (
      threadId: string,
      begun: Partial<Live>,
      open: (signal: AbortSignal) => ReturnType<Agent["stream"]>,
      joined: string | null = null,
    ) => {
      watching.current?.ending.abort();
      const here: Watched = { ending: new AbortController(), threadId, runId: joined };
      watching.current = here;
      setLive({ ...nothing, isRunning: true, ...begun });
      const isCurrent = () => watching.current === here;
      const show = (type: string, value: unknown) => isCurrent() && setLive((since) => applied(since, type, value));
      const { problem, refusal, hasEnded } = await follow(open(here.ending.signal), here, show);
      if (!isCurrent()) return;
      await refresh(deploymentId, threadId);
      // The user may have opened another thread or begun another run in the meantime.
      if (!isCurrent()) return;
      watching.current = null;
      // The event stream of a run may break off while the run continues. Joining the run once continues the stream.
      if (hasEnded || joined !== null) followed.current = here.runId;
      setLive((since) => ended(since, problem, refusal !== null));
      if (refusal !== null) throw refusal;
    },
    [deploymentId],
  );
  const reset = useCallback(() => {
    watching.current?.ending.abort();
    watching.current = null;
    followed.current = null;
    setLive(nothing);
  }, []);
  return { live, watch, watching, followed, reset };
}

/** Follows the events of a run to its end. `refusal` is set when the agent refused the run before the first event. */
async function follow(
  events: ReturnType<Agent["stream"]>,
  here: Watched,
  show: (type: string, value: unknown) => void,
): Promise<{ problem: string | null; refusal: AgentError | null; hasEnded: boolean }> {
  let problem: string | null = null;
  try {
    for await (const { type, data } of events) {
      if (data === "") continue;
      const value: unknown = JSON.parse(data);
      if (type === "metadata") here.runId = (value as { run_id?: string } | null)?.run_id ?? here.runId;
      if (type === "error") problem = errorText(value);
      else show(type, value);
    }
    return { problem, refusal: null, hasEnded: true };
  } catch (error) {
    if (here.ending.signal.aborted) return { problem: null, refusal: null, hasEnded: false };
    return { problem: textOf(error), refusal: error instanceof AgentError ? error : null, hasEnded: false };
  }
}

export async function refresh(deploymentId: string, threadId: string): Promise<void> {
  await Promise.all([
    queries.invalidateQueries({ queryKey: ["agent", deploymentId, "thread", threadId] }),
    queries.invalidateQueries({ queryKey: ["agent", deploymentId, "threads"] }),
    queries.invalidateQueries({ queryKey: ["approvals"] }),
  ]);
}

/** A message that the agent refused is not a part of the conversation. */
function ended(live: Live, problem: string | null, isRefused: boolean): Live {
  const last = problem === null ? "done" : "failed";
  const entries = Object.entries(live.nodes).map(([name, phase]) => [name, phase === "now" ? last : phase]);
  const messages = isRefused ? null : live.messages;
  const nodes = Object.fromEntries(entries) as Live["nodes"];
  // LangGraph.js reports the task of a node that threw as ended before it sends the error.
  const hasFailed = Object.values(nodes).includes("failed");
  if (problem !== null && !isRefused && !hasFailed && live.lastNode !== null) nodes[live.lastNode] = "failed";
  return { ...live, messages, isRunning: false, nodes, error: problem };
}

function applied(live: Live, event: string, value: unknown): Live {
  // Events of a graph inside of a node have a namespace behind their type: `tasks|research:<id>|search:<id>`.
  const [type = "", ...inside] = event.split("|");
  const path = inside.map((part) => `${part.split(":", 1)[0]}:`).join("");
  // A graph may stream anything, such as null or a string as its values.
  if (typeof value !== "object" || value === null) return live;
  return appliers[type]?.(live, value, path) ?? live;
}

/** `path`: the nodes around the graph that sent the event, each with a colon. "" for the graph itself. */
const appliers: Record<string, (live: Live, value: unknown, path: string) => Live> = {
  values(live, value, path) {
    if (path !== "") return live;
    const values = value as Values;
    return { ...live, values, messages: "messages" in values ? messagesIn(values) : live.messages };
  },
  updates(live, value, path) {
    const names = Object.keys(value as object);
    if (!names.includes("__interrupt__"))
      return marked(
        live,
        names.map((name) => path + name),
        "done",
      );
    const paused = Object.entries(live.nodes).map(([name, phase]) => [name, phase === "now" ? "waiting" : phase]);
    return { ...live, nodes: Object.fromEntries(paused) };
  },
  tasks(live, value, path) {
    const { name, result, error, interrupts } = value as Record<string, unknown>;
    if (typeof name !== "string") return live;
    if (Array.isArray(interrupts) && interrupts.length > 0) return marked(live, [path + name], "waiting");
    if (error != null) return marked(live, [path + name], "failed");
    return marked(live, [path + name], result === undefined ? "now" : "done");
  },
  messages(live, value, path) {
    if (!Array.isArray(value) || typeof value[0] !== "object" || value[0] === null) return live;
    const [chunk, meta] = value as [Message, { langgraph_node?: string } | null | undefined];
    const node = meta?.langgraph_node;
    const next = node === undefined ? live : marked(live, [path + node], "now");
    return { ...next, messages: withChunk(next.messages ?? [], chunk) };
  },
};

function marked(live: Live, names: readonly string[], phase: NodePhase): Live {
  const nodes = { ...live.nodes };
  for (const name of names) nodes[name] = phase;
  return { ...live, nodes, lastNode: names.at(-1) ?? live.lastNode };
}

/** Adds a piece of a message to the message of its id. A whole message replaces what was there. */
function withChunk(messages: readonly Message[], chunk: Message): Message[] {
  const at = messages.findIndex(({ id }) => id !== undefined && id === chunk.id);
  const known = messages[at];
  if (known === undefined) return authorOf(chunk) === "system" ? [...messages] : [...messages, chunk];
  // LangGraph.js names pieces like whole messages, but only pieces have this field.
  const isPiece = /chunk$/i.test(chunk.type ?? "") || "tool_call_chunks" in chunk;
  const merged = isPiece ? { ...known, content: textOfMessage(known) + textOfMessage(chunk) } : chunk;
  return messages.toSpliced(at, 1, merged);
}
