import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { MessageSquarePlus, RefreshCw } from "lucide-react";
import { useDeferredValue, useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { backOff } from "../agent/back-off.ts";
import { useAgent } from "../agent/client.ts";
import { findThreads, shownMax, type Which } from "../agent/find-threads.ts";
import { lastOf, type Thread, type ThreadStatus, titleOf } from "../agent/types.ts";
import { AgentGate } from "../parts/agent/agent-gate.tsx";
import { ThreadLight } from "../parts/agent/thread-status.tsx";
import { Tabs } from "../parts/fields.tsx";
import { IconButton } from "../parts/icon-button.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
import { SearchField } from "../parts/search-field.tsx";
import { Ago } from "../parts/time.tsx";
import { ThreadView } from "./thread-view.tsx";
import "../style/threads.css";
import "../style/playground.css";

/** How often the list is read again. */
const pace = backOff<Thread[]>(5_000, 60_000, (threads) => threads.some(({ status }) => status === "busy"));

/** The threads of an agent, and what happened in one of them. */
export function ThreadsPart({ deployment }: { deployment: Deployment }) {
  return <AgentGate deployment={deployment}>{() => <Threads deployment={deployment} />}</AgentGate>;
}

function Threads({ deployment }: { deployment: Deployment }) {
  const agent = useAgent(deployment);
  const { thread: chosen } = useSearch({ strict: false });
  const [typed, setTyped] = useState("");
  const [which, setWhich] = useState<Which>("all");
  const search = useDeferredValue(typed.trim());
  const found = useQuery({
    queryKey: ["agent", deployment.id, "threads", which, search],
    queryFn: ({ signal }) => findThreads(agent, { which, search, signal }),
    placeholderData: keepPreviousData,
    refetchInterval: pace,
  });
  const threads = found.data ?? [];
  const isFiltered = search !== "" || which !== "all";
  const params = { tenantId: deployment.tenant_id, id: deployment.id };
  if (found.isPending) return <Loading what="the threads" />;
  if (found.isError && found.data === undefined)
    return <Failure error={found.error} retry={() => void found.refetch()} />;
  if (threads.length === 0 && !isFiltered && chosen === undefined)
    return (
      <section className="card blank">
        <h2>No threads yet</h2>
        <p>
          A thread is one conversation with the agent, with its runs, its state and what it asked people. Your first
          message in the playground starts one, and so does every client of this deployment.
        </p>
        <Link
          className="button primary"
          to="/o/$tenantId/host/deployments/$id/$part"
          params={{ ...params, part: "playground" }}
        >
          <MessageSquarePlus size={14} /> Open the playground
        </Link>
      </section>
    );
  return (
    <div className={chosen === undefined ? "threads" : "threads one"}>
      <section className="thread-list" aria-label="Threads">
        <div className="thread-tools">
          <ThreadSearch typed={typed} onTyped={setTyped} onReadAgain={() => void found.refetch()} />
          <Tabs
            label="Status"
            value={which}
            onValue={setWhich}
            options={[
              { value: "all", text: "All" },
              { value: "interrupted", text: "Waiting" },
              { value: "busy", text: "Running" },
              { value: "error", text: "Error" },
            ]}
          />
        </div>
        <ul className="plain">
          {threads.map((thread) => (
            <ThreadRow
              key={thread.thread_id}
              thread={thread}
              deployment={deployment}
              isChosen={thread.thread_id === chosen}
            />
          ))}
        </ul>
        {search !== "" && <p className="thread-none softer">The search covers the newest {shownMax} threads.</p>}
        {threads.length === 0 && (
          <p className="thread-none soft">
            No thread matches.{" "}
            <button
              type="button"
              className="quiet small"
              onClick={() => {
                setTyped("");
                setWhich("all");
              }}
            >
              Show all threads
            </button>
          </p>
        )}
      </section>
      {chosen === undefined ? (
        <section className="thread-view blank" aria-label="Thread">
          <p>Choose a thread to see its messages, tool calls, nodes and state.</p>
        </section>
      ) : (
        <ThreadView key={chosen} deployment={deployment} agent={agent} threadId={chosen} />
      )}
    </div>
  );
}

function ThreadSearch(props: { typed: string; onTyped: (typed: string) => void; onReadAgain: () => void }) {
  const { typed, onTyped, onReadAgain } = props;
  return (
    <div className="row thread-search">
      <SearchField label="Search the threads" placeholder="Text, id or key:value" value={typed} onText={onTyped} />
      <IconButton name="Read the threads again" icon={<RefreshCw size={14} />} onClick={onReadAgain} />
    </div>
  );
}

function ThreadRow({ thread, deployment, isChosen }: { thread: Thread; deployment: Deployment; isChosen: boolean }) {
  const navigate = useNavigate();
  const last = lastOf(thread);
  const open = () =>
    navigate({
      to: "/o/$tenantId/host/deployments/$id/$part",
      params: { tenantId: deployment.tenant_id, id: deployment.id, part: "threads" },
      search: { thread: thread.thread_id },
    });
  return (
    <li>
      <button
        type="button"
        className="thread"
        title={thread.thread_id}
        aria-current={isChosen ? "true" : undefined}
        onClick={() => void open()}
      >
        <ThreadLight status={thread.status} />
        <b className="clip">{titleOf(thread)}</b>
        <span className="softer">
          <Ago at={thread.updated_at ?? thread.created_at ?? null} />
        </span>
        <span className="softer clip last">{last === "" ? withoutAnswer(thread.status) : last}</span>
      </button>
    </li>
  );
}

/** Says why a thread shows no answer of the agent. */
const withoutAnswer = (status: ThreadStatus | undefined) =>
  status === "error" ? "The last run failed" : status === "busy" ? "Running" : "No answer yet";
