import { useQuery } from "@tanstack/react-query";
import { ArrowLeft } from "lucide-react";
import { useDeferredValue, useState } from "react";
import { type Agent, segment } from "../../agent/client.ts";
import { findThreads } from "../../agent/find-threads.ts";
import { nameOfRun } from "../../agent/name-run.ts";
import { type Run, type Thread, titleOf } from "../../agent/types.ts";
import { Dialog } from "../dialog.tsx";
import { Failure, Loading } from "../notices.tsx";
import { Ago } from "../time.tsx";
import { ThreadLight, ThreadStatusText } from "./thread-status.tsx";

interface Props {
  agent: Agent;
  deploymentId: string;
  /** The thread of the first run, which is left out. */
  threadId: string;
  onChosen: (threadId: string, runId: string) => void;
  onClose: () => void;
}

/** Asks for a run of another thread. */
export function OtherRun({ agent, deploymentId, threadId, onChosen, onClose }: Props) {
  const [thread, setThread] = useState<Thread | null>(null);
  return (
    <Dialog title="Compare with a run of another thread" onClose={onClose}>
      {thread === null ? (
        <ThreadChoice {...{ agent, deploymentId, threadId }} onChosen={setThread} />
      ) : (
        <>
          <div className="row">
            <button type="button" className="quiet small" onClick={() => setThread(null)}>
              <ArrowLeft size={13} /> All threads
            </button>
            <b className="clip">{titleOf(thread)}</b>
          </div>
          <RunChoice {...{ agent, deploymentId, thread }} onChosen={(runId) => onChosen(thread.thread_id, runId)} />
        </>
      )}
    </Dialog>
  );
}

function ThreadChoice(
  props: Pick<Props, "agent" | "deploymentId" | "threadId"> & { onChosen: (thread: Thread) => void },
) {
  const { agent, deploymentId, threadId, onChosen } = props;
  const [typed, setTyped] = useState("");
  const search = useDeferredValue(typed.trim());
  const found = useQuery({
    queryKey: ["agent", deploymentId, "threads", "all", search],
    queryFn: ({ signal }) => findThreads(agent, { which: "all", search, signal }),
  });
  const threads = (found.data ?? []).filter(({ thread_id }) => thread_id !== threadId);
  return (
    <>
      <input
        type="search"
        aria-label="Search the other threads"
        placeholder="Text, id or key:value"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
      {found.isPending && <Loading what="the threads" />}
      {found.isError && <Failure error={found.error} retry={() => void found.refetch()} />}
      {found.isSuccess && threads.length === 0 && <p className="soft">There is no other thread.</p>}
      <ul className="plain choice-list">
        {threads.map((thread) => (
          <li key={thread.thread_id}>
            <button type="button" className="thread" onClick={() => onChosen(thread)}>
              <ThreadLight status={thread.status} />
              <b className="clip">{titleOf(thread)}</b>
              <span className="softer">
                <Ago at={thread.updated_at ?? thread.created_at ?? null} />
              </span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

function RunChoice(
  props: Pick<Props, "agent" | "deploymentId"> & { thread: Thread; onChosen: (runId: string) => void },
) {
  const { agent, deploymentId, thread, onChosen } = props;
  const runs = useQuery({
    queryKey: ["agent", deploymentId, "thread", thread.thread_id, "runs"],
    queryFn: async ({ signal }) => {
      const found = await agent.call<unknown>(
        "GET",
        `/threads/${segment(thread.thread_id)}/runs?limit=50`,
        undefined,
        signal,
      );
      return Array.isArray(found) ? (found as Run[]) : [];
    },
  });
  if (runs.isPending) return <Loading what="the runs" />;
  if (runs.isError) return <Failure error={runs.error} retry={() => void runs.refetch()} />;
  if (runs.data.length === 0) return <p className="soft">This thread has no runs.</p>;
  return (
    <ul className="plain choice-list">
      {runs.data.map((run) => (
        <li key={run.run_id}>
          <button type="button" className="thread" title={run.run_id} onClick={() => onChosen(run.run_id)}>
            <ThreadLight status={run.status} isSilent />
            <b className="clip">{nameOfRun(run)}</b>
            <span className="softer">
              <Ago at={run.created_at ?? null} />
            </span>
            <span className="last">
              <ThreadStatusText status={run.status} />
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}
