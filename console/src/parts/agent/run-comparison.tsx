import type { ReactNode } from "react";
import { differingKeys, type RunFacts } from "../../agent/compare-runs.ts";
import { durationText } from "../../agent/timeline.ts";
import { endOf } from "../../agent/types.ts";
import { Ago } from "../time.tsx";
import { jsonOf } from "./json-text.tsx";
import { Markdown } from "./markdown.tsx";
import { ThreadStatusText } from "./thread-status.tsx";
import "../../style/comparison.css";

/**
 * Two runs beside each other: what they did, what they said, and where their states differ. `titles`: the threads of the runs, if
 * they are not of one thread.
 */
export function RunComparison(props: { facts: readonly [RunFacts, RunFacts]; titles?: readonly [string, string] }) {
  const { titles } = props;
  const [a, b] = props.facts;
  const keys = differingKeys(a, b);
  const rows: [name: string, show: (facts: RunFacts) => ReactNode][] = [
    ["Status", ({ run }) => <ThreadStatusText status={run.status} />],
    ["Started", ({ run }) => <Ago at={run.created_at ?? null} />],
    ["Duration", ({ tookMs }) => (tookMs === null ? "–" : durationText(tookMs))],
    ["Nodes", ({ nodes }) => <Nodes nodes={nodes} />],
    ...(a.tokens + b.tokens > 0
      ? [["Tokens", ({ tokens }: RunFacts) => tokens.toLocaleString("en")] as [string, (facts: RunFacts) => ReactNode]]
      : []),
    ["Answer", ({ answer }) => (answer === null ? "–" : <Markdown text={answer} />)],
    ...keys.map((key): [string, (facts: RunFacts) => ReactNode] => [
      key,
      ({ values }) =>
        values[key] === undefined ? (
          <span className="softer">not set</span>
        ) : (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
          <pre className="json" tabIndex={0}>
            {jsonOf(values[key])}
          </pre>
        ),
    ]),
  ];
  return (
    <>
      <table className="list comparison" aria-label="Two runs">
        <thead>
          <tr>
            <td className="compared-name" />
            {[a, b].map(({ run }, at) => (
              <th key={run.run_id} scope="col" className="compared">
                {titles !== undefined && <span className="run-of">{titles[at]}</span>}
                <span className="mono">{endOf(run.run_id)}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, show]) => (
            <tr key={name}>
              <th scope="row" className={`compared-name ${keys.includes(name) ? "mono" : ""}`}>
                {name}
              </th>
              {[a, b].map((facts) => (
                // On a phone the heads of the columns are hidden, and each cell names its run.
                <td key={facts.run.run_id} className="compared" data-label={endOf(facts.run.run_id)}>
                  {show(facts)}
                </td>
              ))}
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
