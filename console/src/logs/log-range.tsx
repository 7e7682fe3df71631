import { type LogSearchParams, searchSpans } from "../search.ts";

const custom = "custom";

/** The time range of a log: one that looks back from now, or one between two moments. */
export function LogRange({ search, onRange }: { search: LogSearchParams; onRange: (search: LogSearchParams) => void }) {
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
