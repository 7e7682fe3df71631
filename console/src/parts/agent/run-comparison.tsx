import type { ReactNode } from "react";
import { differingKeys, type RunFacts } from "../../agent/compare-runs.ts";
import { startOfRun } from "../../agent/name-run.ts";
import { durationText } from "../../agent/timeline.ts";
import { endOf } from "../../agent/types.ts";
import { CopyText } from "../address.tsx";
import { jsonOf } from "./json-text.tsx";
import { Markdown } from "./markdown.tsx";
import { ThreadStatusText } from "./thread-status.tsx";
import "../../style/runs.css";

/**
 * Two runs beside each other: what they did, what they said, and where their states differ. `titles`: the threads of the runs, if
 * they are not of one thread.
 */
export function RunComparison(props: { facts: readonly [RunFacts, RunFacts]; titles?: readonly [string, string] }) {
  const { titles } = props;
  const [a, b] = props.facts;
  const keys = differingKeys(a, b);
  const rows: [name: string, show: (facts: RunFacts) => ReactNode][] = [
    ["Duration", ({ tookMs }) => (tookMs === null ? "–" : durationText(tookMs))],
    ["Nodes", ({ nodes }) => <Nodes nodes={nodes} />],
    ...(a.models.length + b.models.length > 0
      ? [["Model", ({ models }: RunFacts) => models.join(", ") || "–"] as [string, (facts: RunFacts) => ReactNode]]
      : []),
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
            {[a, b].map((facts, at) => (
              <th key={facts.run.run_id} scope="col" className="compared">
                <RunHead facts={facts} title={titles?.[at]} />
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
                // On a phone the heads stand above the rows, and each cell names its run by its start.
                <td key={facts.run.run_id} className="compared" data-label={labelOf(facts, a, b)}>
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

/** Names a run by what it was started with, when, and how it ended. `title`: its thread, if the other run has another one. */
function RunHead({ facts: { run, name }, title }: { facts: RunFacts; title: string | undefined }) {
  return (
    <span className="run-name">
      <b title={name}>{name}</b>
      {title !== undefined && title !== name && <span className="softer">Thread: {title}</span>}
      <span className="run-facts">
        {startOfRun(run) !== "" && <time dateTime={run.created_at}>{startOfRun(run)}</time>}
        <ThreadStatusText status={run.status} />
        <CopyText name="run id" text={run.run_id} shown={endOf(run.run_id)} />
      </span>
    </span>
  );
}

/** Returns the start of a run, or the end of its id if both began in the same second or on an unknown day. */
function labelOf({ run }: RunFacts, a: RunFacts, b: RunFacts): string {
  return startOfRun(a.run) === startOfRun(b.run) ? endOf(run.run_id) : startOfRun(run);
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
