import { ListFilter } from "lucide-react";
import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { FoundLogEntry } from "../../../src/contract/logs/search.ts";
import { type LogField, toggleLogValue } from "../../../src/domain/log-query.ts";
import { Failure } from "../parts/notices.tsx";
import { type LogSearchParams, searchSpans } from "../search.ts";
import { Facets } from "./facets.tsx";
import { Histogram } from "./histogram.tsx";
import { LineList } from "./line-list.tsx";
import { aroundMs, LineDetails, LineRow } from "./line-row.tsx";
import { LogActs } from "./log-acts.tsx";
import { LogRange } from "./log-range.tsx";
import { queryWithin, replicaText, sourcesOf, withoutSources } from "./one-deployment.ts";
import { QueryForm } from "./query-form.tsx";
import { linesText, NoLines, OlderLines, ReadSoFar } from "./read-notes.tsx";
import { useRevisionMarks } from "./revision-marks.ts";
import { type FoundLogs, shownLinesMax, useLogSearch } from "./use-log-search.ts";
import "../style/logs.css";

interface Props {
  search: LogSearchParams;
  onSearch: (search: LogSearchParams, isReplaced?: boolean) => void;
  /** Shows the lines of this deployment only. */
  deployment?: Deployment;
  /** The heading of the page, with the acts beside it. Without one they stand in the bar above the lines. */
  title?: ReactNode;
}

/** Explores logs: a query, counts by field and over time, and the lines, which can be followed. The address has all of it. */
export function LogExplorer({ search, onSearch: change, deployment, title }: Props) {
  const { q = "", span = searchSpans[0].seconds, since: from, until: to, line } = search;
  const query = deployment === undefined ? q : queryWithin(q, deployment.id);
  const isOne = deployment !== undefined;
  // A page that was opened by a link to a line or a fixed range does not follow.
  const [mayFollow, setFollowing] = useState(line === undefined && to === undefined);
  const isFollowing = mayFollow && to === undefined;
  const [isFilterOpen, setFilterOpen] = useState(false);
  const bornAt = from === undefined ? deployment?.created_at : undefined;
  const found = useLogSearch({ query, span, from, to, bornAt }, isFollowing);
  const marks = useRevisionMarks(found.counts, found.range);
  const { line: _line, ...unopened } = search;
  const withQuery = (next: string) => {
    const { q: _q, ...rest } = unopened;
    change(next === "" ? rest : { ...rest, q: next });
  };
  const open = useStable((id: string) => {
    setFollowing(false);
    change(id === line ? unopened : { ...unopened, line: id }, true);
  });
  const narrow = useStable((start: string, end: string) => {
    setFollowing(false);
    change({ ...(q !== "" && { q }), since: start, until: end });
  });
  const toggle = useStable((field: LogField, value: string) => withQuery(toggled(q, field, value, false)));
  const acts = <LogActs search={search} query={query} lines={found.lines} onOpen={change} deployment={deployment} />;
  return (
    <div className={isOne ? "logs-page of-one" : "logs-page"}>
      {title !== undefined && (
        <div className="page-head">
          {title}
          {acts}
        </div>
      )}
      <QueryForm query={q} counts={found.counts} onQuery={withQuery} isOne={isOne} />
      <div className="log-bar row">
        <LogRange search={search} onRange={change} />
        <FollowBox isOn={isFollowing} isPossible={to === undefined} onTurn={setFollowing} />
        {isOne && <BuildsBox query={q} onQuery={withQuery} />}
        <FilterButton isOpen={isFilterOpen} onTurn={setFilterOpen} />
        <ReadSoFar found={found} isFollowing={isFollowing} onCountOlder={found.countOlder} />
        {title === undefined && acts}
      </div>
      {found.problem !== null && <Failure error={found.problem} retry={found.again} />}
      {found.counts !== null && found.range !== null && (
        <Histogram counts={found.counts} range={found.range} marks={marks} onRange={narrow} />
      )}
      <div className="log-grid">
        <aside className={isFilterOpen ? "facets open" : "facets"} aria-label="Filter">
          <ShownFacets found={found} query={q} isOne={isOne} onToggle={toggle} />
        </aside>
        <div className="log-card" aria-busy={found.isReading}>
          <Columns from={isOne ? "Replica" : "Deployment"} shown={found.lines.length} />
          {found.lines.length === 0 ? (
            <NoLines found={found} query={q} onShowAll={() => withQuery("")} onOlder={found.older} />
          ) : (
            <LineList
              lines={found.lines}
              search={found.answered}
              openId={line}
              isFollowing={isFollowing}
              onFollow={(isAtEnd) => to === undefined && setFollowing(isAtEnd)}
              onReachStart={found.older}
              row={(one) => (
                <LineRow
                  line={one}
                  from={isOne ? replicaText(one) : one.deployment_name}
                  isOpen={one.id === line}
                  onToggle={open}
                />
              )}
              details={(one) => (
                <LineDetails
                  line={one}
                  isOne={isOne}
                  onFilter={(field, value, isNegated) => withQuery(toggled(q, field, value, isNegated))}
                  onAround={() => {
                    setFollowing(false);
                    change(around(one));
                  }}
                />
              )}
            />
          )}
          {found.lines.length > 0 && <OlderLines found={found} onOlder={found.older} />}
        </div>
      </div>
    </div>
  );
}

/** Returns a function that stays the same and does what the one of the last render does, so that memoized parts rest. */
function useStable<A extends unknown[]>(act: (...args: A) => void): (...args: A) => void {
  const latest = useRef(act);
  useEffect(() => {
    latest.current = act;
  });
  return useCallback((...args: A) => latest.current(...args), []);
}

function ShownFacets(props: {
  found: FoundLogs;
  query: string;
  isOne: boolean;
  onToggle: (field: LogField, value: string) => void;
}) {
  const { query, isOne, onToggle } = props;
  const { counts, lines, hasOlder } = props.found;
  if (counts === null) return null;
  const isWhole = !hasOlder && lines.length < shownLinesMax;
  return <Facets counts={counts} query={query} lines={isOne ? lines : null} isWhole={isWhole} onToggle={onToggle} />;
}

/** Phones hide the counts by field behind this button. */
function FilterButton({ isOpen, onTurn }: { isOpen: boolean; onTurn: (isOpen: boolean) => void }) {
  return (
    <button type="button" className="facet-toggle" aria-expanded={isOpen} onClick={() => onTurn(!isOpen)}>
      <ListFilter size={14} /> Filter
    </button>
  );
}

function Columns({ from, shown }: { from: string; shown: number }) {
  return (
    <div className="log-head" aria-hidden="true">
      <span>Time</span>
      <span>Level</span>
      <span>{from}</span>
      <span>Message</span>
      <span>{linesText(shown)} shown</span>
    </div>
  );
}

/** A range that has an end gets no new lines. */
function FollowBox(props: { isOn: boolean; isPossible: boolean; onTurn: (isOn: boolean) => void }) {
  const { isOn, isPossible, onTurn } = props;
  return (
    <label className="row">
      <input type="checkbox" checked={isOn} disabled={!isPossible} onChange={(event) => onTurn(event.target.checked)} />{" "}
      Follow
    </label>
  );
}

/** Build lines are left out of a deployment's log until the query asks for them. */
function BuildsBox({ query, onQuery }: { query: string; onQuery: (query: string) => void }) {
  const isOn = sourcesOf(query).includes("build");
  const turn = () =>
    onQuery(
      isOn
        ? withoutSources(query)
        : toggled(toggled(withoutSources(query), "source", "deploy", false), "source", "build", false),
    );
  return (
    <label className="row">
      <input type="checkbox" checked={isOn} onChange={turn} /> Builds
    </label>
  );
}

/** Returns the query unchanged if it has a mistake: the page already shows it. */
function toggled(
  query: string,
  ...value: [field: Parameters<typeof toggleLogValue>[1], value: string, isNegated: boolean]
) {
  try {
    return toggleLogValue(query, ...value);
  } catch {
    return query;
  }
}

function around({ id, timestamp }: FoundLogEntry): LogSearchParams {
  const at = Date.parse(timestamp);
  return { since: new Date(at - aroundMs).toISOString(), until: new Date(at + aroundMs).toISOString(), line: id };
}
