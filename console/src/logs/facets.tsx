import { memo } from "react";
import type { LogLevel } from "../../../src/contract/logs/log.ts";
import type { FoundLogEntry, LogCounts } from "../../../src/contract/logs/search.ts";
import { type LogField, logLevelNames, logTermsOf } from "../../../src/domain/log-query.ts";

/** Deployments that are listed. More are found by their name in the query. */
const deploymentsShown = 15;

interface Facet {
  field: LogField;
  /** `count`: null where only the shown lines are known, not all. `text`: what is shown, if it is not the value. */
  values: { value: string; count: number | null; text?: string }[];
}

/** Counts by field. A click adds the value to the query, or takes it out. */
export const Facets = memo(function Facets(props: {
  counts: LogCounts;
  query: string;
  /** The lines of one deployment, whose replicas and revisions are offered. null: the deployments are. */
  lines: readonly FoundLogEntry[] | null;
  /** Whether these are all matching lines, so that they can be counted. */
  isWhole: boolean;
  onToggle: (field: LogField, value: string) => void;
}) {
  const { counts, query, lines, isWhole, onToggle } = props;
  const chosen = chosenOf(query);
  const order = (level: string) => logLevelNames.indexOf(level as LogLevel);
  const facets: Facet[] = [
    {
      field: "level",
      values: counts.levels
        .map(({ level, count }) => ({ value: level.toLowerCase(), count }))
        .sort((a, b) => order(b.value.toUpperCase()) - order(a.value.toUpperCase())),
    },
    ...(lines === null
      ? [
          {
            field: "deployment" as const,
            values: counts.deployments.slice(0, deploymentsShown).map(({ name, count }) => ({ value: name, count })),
          },
        ]
      : facetsOf(lines, chosen, isWhole)),
    { field: "source", values: counts.sources.map(({ source, count }) => ({ value: source, count })) },
  ];
  return (
    <>
      {facets
        .filter(({ values }) => values.length > 0)
        .map(({ field, values }) => {
          const max = Math.max(...values.map(({ count }) => count ?? 0));
          return (
            <section key={field} className="facet" aria-label={`Lines by ${field}`}>
              <h2>{field}</h2>
              <ul className="plain">
                {values.map(({ value, count, text = value }) => (
                  <li key={value}>
                    <button
                      type="button"
                      className="quiet"
                      aria-pressed={chosen.has(`${field}:${value.toLowerCase()}`)}
                      onClick={() => onToggle(field, value)}
                    >
                      {field === "level" && <i className={`lv ${value}`} />}
                      <span className={text === value ? "clip" : "clip mono"}>{text}</span>
                      {count !== null && (
                        <>
                          <em>{count.toLocaleString("en")}</em>
                          <b style={{ width: `${(count / max) * 100}%` }} />
                        </>
                      )}
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

/** Replicas and revisions that are listed, newest first. */
const foundShown = 8;

/** Returns the replicas and revisions of the shown lines. One alone is no choice, unless the query has it. */
function facetsOf(lines: readonly FoundLogEntry[], chosen: Set<string>, isWhole: boolean): Facet[] {
  const [replicas, revisions] = [new Map<string, number>(), new Map<string, number>()];
  const add = (counts: Map<string, number>, value: string) => counts.set(value, (counts.get(value) ?? 0) + 1);
  for (const { replica, revision_number: number } of lines) {
    if (replica !== null) add(replicas, replica);
    if (number !== null) add(revisions, String(number));
  }
  const facet = (field: LogField, found: Map<string, number>, textOf: (value: string) => string): Facet => {
    const isChoice = found.size > 1 || [...found.keys()].some((value) => chosen.has(`${field}:${value.toLowerCase()}`));
    const values = isChoice ? [...found].toReversed().slice(0, foundShown) : [];
    return {
      field,
      values: values.map(([value, count]) => ({ value, count: isWhole ? count : null, text: textOf(value) })),
    };
  };
  return [facet("revision", revisions, (value) => value), facet("replica", replicas, (value) => value.slice(-8))];
}

/** Returns the values that the query asks for. A query with a mistake asks for none. */
function chosenOf(query: string): Set<string> {
  try {
    const terms = logTermsOf(query).filter(({ field, isNegated }) => field !== null && !isNegated);
    return new Set(terms.flatMap(({ field, values }) => values.map((value) => `${field}:${value.toLowerCase()}`)));
  } catch {
    return new Set();
  }
}
