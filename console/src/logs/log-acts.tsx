import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { FoundLogEntry } from "../../../src/contract/logs/search.ts";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { Download } from "../parts/log-view.tsx";
import { type LogSearchParams, searchSpans } from "../search.ts";
import { replicaText } from "./one-deployment.ts";
import { SavedViews } from "./saved-views.tsx";

interface Props {
  search: LogSearchParams;
  /** The query that was sent. */
  query: string;
  lines: readonly FoundLogEntry[];
  onOpen: (search: LogSearchParams) => void;
  deployment: Deployment | undefined;
}

/** What can be done with the shown search: copy the call, save the lines, keep the view. */
export function LogActs({ search, query, lines, onOpen, deployment }: Props) {
  const { span = searchSpans[0].seconds, since: from, until: to } = search;
  const input = {
    query,
    ...(from !== undefined && { start_time: from }),
    ...(to !== undefined && { end_time: to }),
  };
  // A query may begin with a dash.
  const cli = `npx pierhead logs --all --since ${from ?? `${span / 60}m`}${query === "" ? "" : ` -- ${shellWord(query)}`}`;
  const of = (line: FoundLogEntry) => (deployment === undefined ? line.deployment_name : replicaText(line));
  return (
    <div className="row log-acts">
      <CopyAs call={{ id: "searchLogs", input, ...(to === undefined && { cli }) }} />
      <Download
        name={deployment === undefined ? "logs.log" : `log-${deployment.name}.log`}
        lines={lines}
        textOf={(line) => `${of(line)} ${line.message}`}
      />
      <SavedViews search={search} onOpen={onOpen} isOne={deployment !== undefined} />
    </div>
  );
}
