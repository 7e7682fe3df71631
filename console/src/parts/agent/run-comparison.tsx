import type { ReactNode } from "react";
import { differingKeys, factsOf, type RunFacts } from "../../agent/compare-runs.ts";
import { durationText } from "../../agent/timeline.ts";
import type { Run, ThreadState } from "../../agent/types.ts";
import { Ago } from "../time.tsx";
import { jsonOf } from "./json-text.tsx";
import { ThreadStatusText } from "./thread-status.tsx";

/** Two runs of a thread beside each other: what they did, what they said, and where their states differ. */
export function RunComparison({ runs, history }: { runs: readonly [Run, Run]; history: readonly ThreadState[] }) {
  const [a, b] = [factsOf(runs[0], history), factsOf(runs[1], history)];
  const keys = differingKeys(a, b);
  const rows: [name: string, show: (facts: RunFacts) => ReactNode][] = [
    ["Status", ({ run }) => <ThreadStatusText status={run.status} />],
    ["Started", ({ run }) => <Ago at={run.created_at ?? null} />],
    ["Duration", ({ tookMs }) => (tookMs === null ? "–" : durationText(tookMs))],
    ["Nodes", ({ nodes }) => <Nodes nodes={nodes} />],
    ...(a.tokens + b.tokens > 0
      ? [["Tokens", ({ tokens }: RunFacts) => tokens.toLocaleString("en")] as [string, (facts: RunFacts) => ReactNode]]
      : []),
    ["Answer", ({ answer }) => (answer === null ? "–" : <p className="run-answer">{answer}</p>)],
    ...keys.map((key): [string, (facts: RunFacts) => ReactNode] => [
      key,
      ({ values }) =>
        values[key] === undefined ? (
          <span className="softer">not set</span>
        ) : (
          <pre className="json">{jsonOf(values[key])}</pre>
        ),
    ]),
  ];
  return (
    <>
      <table className="list comparison" aria-label="Two runs">
        <thead>
          <tr>
            <td />
            {[a, b].map(({ run }) => (
              <th key={run.run_id} scope="col" className="mono">
                {run.run_id.slice(0, 8)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, show]) => (
            <tr key={name}>
              <th scope="row" className={keys.includes(name) ? "mono" : ""}>
                {name}
              </th>
              <td>{show(a)}</td>
              <td>{show(b)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {keys.length === 0 && <p className="softer">Both runs end with the same state, apart from the messages.</p>}
    </>
  );
}

function Nodes({ nodes }: Pick<RunFacts, "nodes">) {
  if (nodes.length === 0) return <>–</>;
  return (
    <ol className="run-nodes">
      {nodes.map(({ name, tookMs }, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a node may run several times; its place is what names it.
        <li key={at}>
          <span className="mono">{name}</span>{" "}
          {tookMs !== null && <span className="softer">{durationText(tookMs)}</span>}
        </li>
      ))}
    </ol>
  );
}
