import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Check, ChevronRight, GitFork } from "lucide-react";
import { useState } from "react";
import { type Agent, segment } from "../../agent/client.ts";
import { durationText, type Entry, lineageOf, timelineOf } from "../../agent/timeline.ts";
import { messagesIn, type ThreadState } from "../../agent/types.ts";
import { historyMax } from "../../agent/use-thread.ts";
import { textOf } from "../../server.ts";
import { jsonOf } from "./json-text.tsx";
import { Line, MessageEntry } from "./message-entry.tsx";

interface Props {
  agent: Agent;
  entry: Entry & { kind: "node" };
  params: { tenantId: string; id: string };
  threadId: string;
  /** A node of a graph inside of another node. A thread forks only at nodes of its own graph. */
  isInside?: boolean;
}

/** A node that ran: how long, what it changed, and what happened inside of it if it is a graph itself. */
export function NodeEntry({ agent, entry, params, threadId, isInside = false }: Props) {
  const [isOpen, setOpen] = useState(false);
  const { name, tookMs, changed, checkpointId, inside } = entry;
  return (
    <Line kind="node done" icon={<Check size={12} />} label="Node">
      <div className="row tl-node">
        <button type="button" className="tl-line" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <b className="mono">{name}</b>
          {tookMs !== null && <span className="softer">{durationText(tookMs)}</span>}
          {inside !== null && <span className="tag">graph</span>}
          <ChevronRight size={13} />
        </button>
        {checkpointId !== undefined && !isInside && (
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
      {isOpen && inside !== null && <Inside {...{ agent, params, threadId, inside, name }} />}
      {isOpen && (
        <pre className="json boxed">
          {Object.keys(changed).length === 0 ? "Changed nothing in the state." : jsonOf(changed)}
        </pre>
      )}
    </Line>
  );
}

/** The steps of a graph inside of a node. They are read when a user opens the node. */
function Inside(props: Pick<Props, "agent" | "params" | "threadId"> & { inside: string; name: string }) {
  const { agent, params, threadId, inside, name } = props;
  const history = useQuery({
    queryKey: ["agent", params.id, "thread", threadId, "inside", inside],
    queryFn: async ({ signal }) => {
      const body = { limit: historyMax, checkpoint: { checkpoint_ns: inside } };
      const found = await agent.call<unknown>("POST", `/threads/${segment(threadId)}/history`, body, signal);
      return Array.isArray(found) ? (found as ThreadState[]) : [];
    },
  });
  if (history.isPending) return null;
  if (history.isError) return <p className="bad-text">The steps inside could not be read: {textOf(history.error)}</p>;
  const states = lineageOf(history.data);
  const steps = timelineOf(states).filter(({ kind }) => kind === "node" || kind === "message");
  if (steps.length === 0) return <p className="softer">The agent kept no steps of this graph.</p>;
  const all = messagesIn(states.at(-1)?.values);
  return (
    <ol className="timeline inside" aria-label={`Inside ${name}`}>
      {steps.map((step) =>
        step.kind === "message" ? (
          <MessageEntry key={step.key} message={step.message} all={all} />
        ) : step.kind === "node" ? (
          <NodeEntry key={step.key} entry={step} isInside {...{ agent, params, threadId }} />
        ) : null,
      )}
    </ol>
  );
}
