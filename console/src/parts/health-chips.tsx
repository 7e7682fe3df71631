import type { ListSearch } from "../search.ts";
import { useSearchChange } from "./deployment-table.tsx";
import { useHealthCounts } from "./health-counts.ts";
import { statusText } from "./status.tsx";
import { attentionWords, HealthNames, type HealthWord } from "./words.ts";

/** Filters by health, each with the number of its deployments. Words without deployments are left out. */
export function HealthChips({ search }: { search: ListSearch }) {
  const change = useSearchChange();
  const counts = useHealthCounts();
  const sum = (words: readonly HealthWord[]) => counts?.of(words) ?? 0;
  const chips = [
    { value: undefined, text: "All", count: sum(HealthNames) },
    { value: "attention" as const, text: "Needs a look", count: sum(attentionWords) },
    ...HealthNames.map((word) => ({ value: word, text: statusText(word), count: sum([word]) })),
  ].filter(({ value, count }) => value === undefined || value === search.health || count > 0);
  return (
    <fieldset className="chips" aria-label="Health">
      {chips.map(({ value, text, count }) => (
        <button
          key={text}
          type="button"
          className="chip"
          aria-pressed={search.health === value}
          onClick={() => change({ health: value })}
        >
          {text} {counts !== undefined && <em>{count.toLocaleString("en")}</em>}
        </button>
      ))}
    </fieldset>
  );
}
