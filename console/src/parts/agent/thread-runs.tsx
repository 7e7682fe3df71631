import { useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowLeft, Columns2 } from "lucide-react";
import { useState } from "react";
import type { Agent } from "../../agent/client.ts";
import { factsOf, runNamesIn } from "../../agent/compare-runs.ts";
import { durationText, errorText } from "../../agent/timeline.ts";
import { endOf, type Run, type Thread, type ThreadState, titleOf } from "../../agent/types.ts";
import { useThread } from "../../agent/use-thread.ts";
import { CopyText } from "../address.tsx";
import { Failure, Loading } from "../notices.tsx";
import { Ago } from "../time.tsx";
import { OtherRun } from "./other-run.tsx";
import { RunComparison } from "./run-comparison.tsx";
import { ThreadStatusText } from "./thread-status.tsx";

interface Props {
  agent: Agent;
  thread: Thread;
  runs: Run[];
  error: unknown;
  /** The checkpoints of all runs, the newest first. */
  history: readonly ThreadState[];
  params: { tenantId: string; id: string };
  threadId: string;
}

/** The runs of a thread. One of them can be compared with another one, also of another thread. */
export function ThreadRuns({ agent, thread, runs, error, history, params, threadId }: Props) {
  const navigate = useNavigate();
  const { compare = "" } = useSearch({ strict: false });
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const failed = history[0]?.tasks?.find((task) => task.error != null)?.error ?? error;
  const [isAsking, setAsking] = useState(false);
  const [first, second] = runNamesIn(compare);
  const find = (id: string | undefined) => runs.find(({ run_id }) => run_id === id);
  const one = find(first?.runId);
  const onCompare = (ids: string) =>
    void navigate({
      ...{ to: "/o/$tenantId/host/deployments/$id/$part", params: { ...params, part: "threads" } },
      search: { thread: threadId, view: "runs", ...(ids !== "" && { compare: ids }) },
    });
  if (runs.length === 0) return <p className="thread-body soft">This thread has no runs.</p>;
  const back = (
    <div className="row">
      <button type="button" className="quiet small" onClick={() => onCompare("")}>
        <ArrowLeft size={13} /> All runs
      </button>
    </div>
  );
  if (one !== undefined && second !== undefined && second.threadId !== null)
    return (
      <div className="thread-body">
        {back}
        <AcrossThreads {...{ agent, thread, history }} run={one} deploymentId={params.id} other={second} />
      </div>
    );
  const other = find(second?.runId);
  if (one !== undefined && other !== undefined)
    return (
      <div className="thread-body">
        {back}
        <RunComparison facts={[factsOf(one, history), factsOf(other, history)]} />
      </div>
    );
  const single = runs.length === 1 ? runs[0]?.run_id : chosen.length === 1 ? chosen[0] : undefined;
  const choose = (id: string, isOn: boolean) =>
    // Two runs can be compared: a third choice replaces the older one.
    setChosen((before) => (isOn ? [...before.slice(-1), id] : before.filter((known) => known !== id)));
  return (
    <div className="thread-body">
      <div className="row">
        {runs.length > 1 && (
          <button type="button" disabled={chosen.length !== 2} onClick={() => onCompare(chosen.join(","))}>
            <Columns2 size={14} /> Compare
          </button>
        )}
        <button type="button" disabled={single === undefined} onClick={() => setAsking(true)}>
          Compare with another thread …
        </button>
        {runs.length > 1 && chosen.length !== 2 && (
          <span className="softer">Choose two runs, or one to compare with another thread.</span>
        )}
      </div>
      {isAsking && single !== undefined && (
        <OtherRun
          {...{ agent, threadId }}
          deploymentId={params.id}
          onClose={() => setAsking(false)}
          onChosen={(otherThread, otherRun) => {
            setAsking(false);
            onCompare(`${single},${otherThread}:${otherRun}`);
          }}
        />
      )}
      <RunTable {...{ runs, history, chosen, choose, failed }} />
    </div>
  );
}

interface TableProps extends Pick<Props, "runs" | "history"> {
  chosen: readonly string[];
  choose: (id: string, isOn: boolean) => void;
  failed: unknown;
}

function RunTable({ runs, history, chosen, choose, failed }: TableProps) {
  return (
    <table className="list runs">
      <thead>
        <tr>
          {runs.length > 1 && (
            <th scope="col">
              <span className="sr">Compare</span>
            </th>
          )}
          <th scope="col">Run</th>
          <th scope="col">Status</th>
          <th scope="col">Started</th>
          <th scope="col">Duration</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run, at) => {
          const { name, tookMs } = factsOf(run, history);
          const isFailed = run.status === "error" || run.status === "timeout";
          return (
            <tr key={run.run_id}>
              {runs.length > 1 && (
                <td className="tick">
                  <input
                    type="checkbox"
                    aria-label={`Compare run ${endOf(run.run_id)}: ${name}`}
                    checked={chosen.includes(run.run_id)}
                    onChange={(event) => choose(run.run_id, event.target.checked)}
                  />
                </td>
              )}
              <td>
                <span className="run-name">
                  <b title={name}>{name}</b>
                  <CopyText name="run id" text={run.run_id} shown={endOf(run.run_id)} />
                </span>
              </td>
              <td data-label="Status">
                <ThreadStatusText status={run.status} />
                {isFailed && at === 0 && failed != null && <p className="bad-text">{errorText(failed)}</p>}
              </td>
              <td data-label="Started">
                <Ago at={run.created_at ?? null} />
              </td>
              <td data-label="Duration">{tookMs === null ? "–" : durationText(tookMs)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

interface AcrossProps extends Pick<Props, "agent" | "thread" | "history"> {
  run: Run;
  deploymentId: string;
  other: { threadId: string | null; runId: string };
}

function AcrossThreads({ agent, thread, history, run, deploymentId, other }: AcrossProps) {
  const read = useThread(agent, deploymentId, other.threadId ?? undefined);
  const failed = [read.thread, read.history, read.runs].find(({ isError }) => isError);
  if (failed !== undefined) return <Failure error={failed.error} retry={() => void failed.refetch()} />;
  if (read.thread.data === undefined || read.history.data === undefined || read.runs.data === undefined)
    return <Loading what="the other run" />;
  const found = read.runs.data.find(({ run_id }) => run_id === other.runId);
  if (found === undefined) return <p className="soft">The other thread has no such run.</p>;
  return (
    <RunComparison
      facts={[factsOf(run, history), factsOf(found, read.history.data)]}
      titles={[titleOf(thread), titleOf(read.thread.data)]}
    />
  );
}
