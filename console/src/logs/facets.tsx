import { memo } from "react";
import type { LogLevel } from "../../../src/contract/logs/log.ts";
import type { LogCounts } from "../../../src/contract/logs/search.ts";
import { type LogField, logLevelNames, logTermsOf } from "../../../src/domain/log-query.ts";

/** Deployments that are listed. More are found by their name in the query. */
const deploymentsShown = 15;

interface Facet {
  field: LogField;
  values: { value: string; count: number }[];
}

/** Counts by field. A click adds the value to the query, or takes it out. */
export const Facets = memo(function Facets(props: {
  counts: LogCounts;
  query: string;
  onToggle: (field: LogField, value: string) => void;
}) {
  const { counts, query, onToggle } = props;
  const chosen = chosenOf(query);
  const order = (level: string) => logLevelNames.indexOf(level as LogLevel);
  const facets: Facet[] = [
    {
      field: "level",
      values: counts.levels
        .map(({ level, count }) => ({ value: level.toLowerCase(), count }))
        .sort((a, b) => order(b.value.toUpperCase()) - order(a.value.toUpperCase())),
    },
    {
      field: "deployment",
      values: counts.deployments.slice(0, deploymentsShown).map(({ name, count }) => ({ value: name, count })),
    },
    { field: "source", values: counts.sources.map(({ source, count }) => ({ value: source, count })) },
  ];
  return (
    <>
      {facets
        .filter(({ values }) => values.length > 0)
        .map(({ field, values }) => {
          const max = Math.max(...values.map(({ count }) => count));
          return (
            <section key={field} className="facet" aria-label={`Lines by ${field}`}>
              <h2>{field}</h2>
              <ul className="plain">
                {values.map(({ value, count }) => (
                  <li key={value}>
                    <button
                      type="button"
                      className="quiet"
                      aria-pressed={chosen.has(`${field}:${value}`)}
                      onClick={() => onToggle(field, value)}
                    >
                      {field === "level" && <i className={`lv ${value}`} />}
                      <span className="clip">{value}</span>
                      <em>{count.toLocaleString("en")}</em>
                      <b style={{ width: `${(count / max) * 100}%` }} />
                    </button>
                  </li>
                ))}
              </ul>
            </section>
          );
        })}
    </>
  );
});

/** Returns the values that the query asks for. A query with a mistake asks for none. */
function chosenOf(query: string): Set<string> {
  try {
    const terms = logTermsOf(query).filter(({ field, isNegated }) => field !== null && !isNegated);
    return new Set(terms.flatMap(({ field, values }) => values.map((value) => `${field}:${value.toLowerCase()}`)));
  } catch {
    return new Set();
  }
}
