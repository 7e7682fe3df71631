import { useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowLeft, Columns2 } from "lucide-react";
import { useState } from "react";
import { durationText, errorText } from "../../agent/timeline.ts";
import type { Run, ThreadState } from "../../agent/types.ts";
import { Ago } from "../time.tsx";
import { RunComparison } from "./run-comparison.tsx";
import { ThreadStatusText } from "./thread-status.tsx";

interface Props {
  runs: Run[];
  error: unknown;
  /** The checkpoints of all runs, the newest first. */
  history: readonly ThreadState[];
  params: { tenantId: string; id: string };
  threadId: string;
}

/** The runs of a thread. Two of them can be compared. */
export function ThreadRuns({ runs, error, history, params, threadId }: Props) {
  const navigate = useNavigate();
  const { compare = "" } = useSearch({ strict: false });
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const failed = history[0]?.tasks?.find((task) => task.error != null)?.error ?? error;
  const [one, other] = compare.split(",").map((id) => runs.find(({ run_id }) => run_id === id));
  const onCompare = (ids: string) =>
    void navigate({
      ...{ to: "/o/$tenantId/host/deployments/$id/$part", params: { ...params, part: "threads" } },
      search: { thread: threadId, view: "runs", ...(ids !== "" && { compare: ids }) },
    });
  if (runs.length === 0) return <p className="thread-body soft">This thread has no runs.</p>;
  if (one !== undefined && other !== undefined)
    return (
      <div className="thread-body">
        <div className="row">
          <button type="button" className="quiet small" onClick={() => onCompare("")}>
            <ArrowLeft size={13} /> All runs
          </button>
        </div>
        <RunComparison runs={[one, other]} history={history} />
      </div>
    );
  const choose = (id: string, isOn: boolean) =>
    // A third choice takes the place of the first one.
    setChosen((before) => (isOn ? [...before.slice(-1), id] : before.filter((known) => known !== id)));
  return (
    <div className="thread-body">
      {runs.length > 1 && (
        <div className="row">
          <button type="button" disabled={chosen.length !== 2} onClick={() => onCompare(chosen.join(","))}>
            <Columns2 size={14} /> Compare
          </button>
          {chosen.length !== 2 && <span className="softer">Choose two runs.</span>}
        </div>
      )}
      <table className="list">
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
            const ms = Date.parse(run.updated_at ?? "") - Date.parse(run.created_at ?? "");
            const isFailed = run.status === "error" || run.status === "timeout";
            return (
              <tr key={run.run_id}>
                {runs.length > 1 && (
                  <td className="tick">
                    <input
                      type="checkbox"
                      aria-label={`Compare run ${run.run_id.slice(0, 8)}`}
                      checked={chosen.includes(run.run_id)}
                      onChange={(event) => choose(run.run_id, event.target.checked)}
                    />
                  </td>
                )}
                <td className="mono">{run.run_id}</td>
                <td>
                  <ThreadStatusText status={run.status} />
                  {isFailed && at === 0 && failed != null && <p className="bad-text">{errorText(failed)}</p>}
                </td>
                <td>
                  <Ago at={run.created_at ?? null} />
                </td>
                <td>{Number.isFinite(ms) && ms >= 0 ? durationText(ms) : "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
