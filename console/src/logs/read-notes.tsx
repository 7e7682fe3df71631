import { type FoundLogs, shownLinesMax } from "./use-log-search.ts";

export const linesText = (count: number) => `${numberText(count)} ${count === 1 ? "line" : "lines"}`;
const numberText = (count: number) => count.toLocaleString("en");
const momentText = (at: string) => new Date(at).toLocaleString([], { hourCycle: "h23" });

/** Says how many lines were read, and back to when, because counts of a part are not counts of the whole. */
export function ReadSoFar(props: { found: FoundLogs; isFollowing: boolean; onCountOlder: () => void }) {
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

/** What the page shows instead of lines, with what the user can do. */
export function NoLines(props: { found: FoundLogs; query: string; onShowAll: () => void; onOlder: () => void }) {
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

/** How far back the shown lines reach. */
export function OlderLines({ found, onOlder }: { found: FoundLogs; onOlder: () => void }) {
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
