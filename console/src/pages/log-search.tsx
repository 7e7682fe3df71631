import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { ListFilter } from "lucide-react";
import { useCallback, useEffect, useRef, useState } from "react";
import type { FoundLogEntry } from "../../../src/contract/logs/search.ts";
import { type LogField, toggleLogValue } from "../../../src/domain/log-query.ts";
import { Facets } from "../logs/facets.tsx";
import { Histogram } from "../logs/histogram.tsx";
import { LineList } from "../logs/line-list.tsx";
import { aroundMs, LineDetails, LineRow } from "../logs/line-row.tsx";
import { QueryForm } from "../logs/query-form.tsx";
import { useRevisionMarks } from "../logs/revision-marks.ts";
import { SavedViews } from "../logs/saved-views.tsx";
import { type FoundLogs, shownLinesMax, useLogSearch } from "../logs/use-log-search.ts";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { Download } from "../parts/log-view.tsx";
import { Failure } from "../parts/notices.tsx";
import { usePageTitle } from "../parts/page-title.ts";
import { type LogSearchParams, searchSpans } from "../search.ts";
import "../style/logs.css";

const route = getRouteApi("/host/logs");

/** The logs of all deployments of the workspace: a query, counts by field and over time, and the lines, which can be followed. */
export function LogSearchPage() {
  usePageTitle("Logs");
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/host/logs" });
  const { q = "", span = searchSpans[0].seconds, since: from, until: to, line } = search;
  // A page that was opened by a link to a line or a fixed range does not follow.
  const [mayFollow, setFollowing] = useState(line === undefined && to === undefined);
  const isFollowing = mayFollow && to === undefined;
  const [isFilterOpen, setFilterOpen] = useState(false);
  const found = useLogSearch({ query: q, span, from, to }, isFollowing);
  const marks = useRevisionMarks(found.counts, found.range);
  const change = (next: LogSearchParams, replace = false) => void navigate({ search: next, replace });
  const { line: _line, ...unopened } = search;
  const withQuery = (query: string) => {
    const { q: _q, ...rest } = unopened;
    change(query === "" ? rest : { ...rest, q: query });
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
  return (
    <div className="logs-page">
      <Head search={search} lines={found.lines} onOpen={change} />
      <QueryForm query={q} counts={found.counts} onQuery={withQuery} />
      <div className="log-bar row">
        <Range search={search} onRange={change} />
        <FollowBox isOn={isFollowing} isPossible={to === undefined} onTurn={setFollowing} />
        <button
          type="button"
          className="facet-toggle"
          aria-expanded={isFilterOpen}
          onClick={() => setFilterOpen(!isFilterOpen)}
        >
          <ListFilter size={14} /> Filter
        </button>
        <ReadSoFar found={found} isFollowing={isFollowing} onCountOlder={found.countOlder} />
      </div>
      {found.problem !== null && <Failure error={found.problem} retry={found.again} />}
      {found.counts !== null && found.range !== null && (
        <Histogram counts={found.counts} range={found.range} marks={marks} onRange={narrow} />
      )}
      <div className="log-grid">
        <aside className={isFilterOpen ? "facets open" : "facets"} aria-label="Filter">
          {found.counts !== null && <Facets counts={found.counts} query={q} onToggle={toggle} />}
        </aside>
        <div className="log-card" aria-busy={found.isReading}>
          <div className="log-head" aria-hidden="true">
            <span>Time</span>
            <span>Level</span>
            <span>Deployment</span>
            <span>Message</span>
            <span>{linesText(found.lines.length)} shown</span>
          </div>
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
              row={(one) => <LineRow line={one} isOpen={one.id === line} onToggle={open} />}
              details={(one) => (
                <LineDetails
                  line={one}
                  onFilter={(field, value, isNegated) => withQuery(toggled(q, field, value, isNegated))}
                  onAround={() => {
                    setFollowing(false);
                    change(around(one));
                  }}
                />
              )}
            />
          )}
          {found.lines.length > 0 && <Older found={found} onOlder={found.older} />}
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

function Head(props: {
  search: LogSearchParams;
  lines: readonly FoundLogEntry[];
  onOpen: (search: LogSearchParams) => void;
}) {
  const { search, lines, onOpen } = props;
  const { q = "", span = searchSpans[0].seconds, since: from, until: to } = search;
  const input = {
    query: q,
    ...(from !== undefined && { start_time: from }),
    ...(to !== undefined && { end_time: to }),
  };
  // A query may begin with a dash.
  const cli = `npx pierhead logs --all --since ${from ?? `${span / 60}m`}${q === "" ? "" : ` -- ${shellWord(q)}`}`;
  return (
    <div className="page-head">
      <h1>Logs</h1>
      <div className="row">
        <CopyAs call={{ id: "searchLogs", input, ...(to === undefined && { cli }) }} />
        <Download name="logs.log" lines={lines} textOf={({ deployment_name: of, message }) => `${of} ${message}`} />
        <SavedViews search={search} onOpen={onOpen} />
      </div>
    </div>
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

const custom = "custom";

function Range({ search, onRange }: { search: LogSearchParams; onRange: (search: LogSearchParams) => void }) {
  const { q, span, since: from, until: to } = search;
  const kept = q === undefined ? {} : { q };
  const choose = (value: string) => {
    const seconds = Number(value);
    if (value === custom) {
      const end = new Date();
      const start = new Date(end.getTime() - (span ?? searchSpans[0].seconds) * 1_000);
      onRange({ ...kept, since: start.toISOString(), until: end.toISOString() });
    } else onRange(seconds === searchSpans[0].seconds ? kept : { ...kept, span: seconds });
  };
  return (
    <>
      <select
        aria-label="Time range"
        value={from === undefined ? (span ?? searchSpans[0].seconds) : custom}
        onChange={(event) => choose(event.target.value)}
      >
        {searchSpans.map(({ seconds, text }) => (
          <option key={seconds} value={seconds}>
            {text}
          </option>
        ))}
        <option value={custom}>From … to …</option>
      </select>
      {from !== undefined && (
        <>
          <Moment
            label="From"
            at={from}
            onAt={(at) => onRange({ ...kept, since: at, ...(to !== undefined && { until: to }) })}
          />
          <Moment label="To" at={to} onAt={(at) => onRange({ ...kept, since: from, until: at })} />
        </>
      )}
    </>
  );
}

function Moment({ label, at, onAt }: { label: string; at: string | undefined; onAt: (at: string) => void }) {
  return (
    <input
      type="datetime-local"
      step={1}
      aria-label={label}
      value={at === undefined ? "" : localText(at)}
      onChange={({ target }) => target.value !== "" && onAt(new Date(target.value).toISOString())}
    />
  );
}

/** Returns a time as date fields write it, in the browser's zone. */
function localText(at: string): string {
  const date = new Date(at);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

const linesText = (count: number) => `${numberText(count)} ${count === 1 ? "line" : "lines"}`;
const numberText = (count: number) => count.toLocaleString("en");
const momentText = (at: string) => new Date(at).toLocaleString([], { hourCycle: "h23" });

/** Says how many lines were read, and back to when, because counts of a part are not counts of the whole. */
function ReadSoFar(props: { found: FoundLogs; isFollowing: boolean; onCountOlder: () => void }) {
  const { found, isFollowing, onCountOlder } = props;
  const { counts, isReading } = found;
  if (counts === null) return null;
  const isWhole = counts.next_cursor === null;
  return (
    <>
      {/* A screen reader would read out each new count of followed lines. */}
      <span className="softer read-so-far" role={isFollowing ? undefined : "status"}>
        {numberText(counts.matches)} of {numberText(counts.lines_read)} lines match
        {isWhole ? "" : `, read back to ${momentText(counts.read_to)}`}
      </span>
      {!isWhole && (
        <button type="button" className="quiet small" disabled={isReading} onClick={onCountOlder}>
          Count older lines
        </button>
      )}
    </>
  );
}

function NoLines(props: { found: FoundLogs; query: string; onShowAll: () => void; onOlder: () => void }) {
  const { found, query, onShowAll, onOlder } = props;
  if (found.isReading || found.range === null) return <p className="blank-lines softer">Searching …</p>;
  return (
    <div className="blank blank-lines">
      <h2>{query === "" ? "No lines in this time range" : "No line matches"}</h2>
      <p>
        {found.hasOlder && found.searchedTo !== null
          ? `Nothing matches back to ${momentText(found.searchedTo)}. There are older lines in the range.`
          : query === ""
            ? "Agents and builds write here as soon as a deployment runs. Look further back with the time range."
            : "Take a term out of the query, or look further back with the time range."}
      </p>
      <div className="row">
        {found.hasOlder && (
          <button type="button" onClick={onOlder}>
            Search older lines
          </button>
        )}
        {query !== "" && (
          <button type="button" onClick={onShowAll}>
            Show every line
          </button>
        )}
      </div>
    </div>
  );
}

function Older({ found, onOlder }: { found: FoundLogs; onOlder: () => void }) {
  const { hasOlder, isReading, lines, searchedTo } = found;
  return (
    <div className="log-foot softer">
      {lines.length >= shownLinesMax ? (
        <span>The page keeps {numberText(shownLinesMax)} lines. Narrow the time range to see older ones.</span>
      ) : hasOlder && searchedTo !== null ? (
        <>
          <span>Shown back to {momentText(searchedTo)}.</span>
          <button type="button" className="quiet small" disabled={isReading} onClick={onOlder}>
            Search older lines
          </button>
        </>
      ) : (
        <span>All matching lines of the time range are shown.</span>
      )}
    </div>
  );
}
