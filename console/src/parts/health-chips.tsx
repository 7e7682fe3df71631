import { useQuery } from "@tanstack/react-query";
import type { ListSearch } from "../search.ts";
import { useSession } from "../session.tsx";
import { useSearchChange } from "./deployment-table.tsx";
import { statusText } from "./status.tsx";
import { attentionWords, HealthNames } from "./words.ts";

/** Filters by health, each with the number of its deployments. Words without deployments are left out. */
export function HealthChips({ search }: { search: ListSearch }) {
  const { client, workspaceId } = useSession();
  const change = useSearchChange();
  const found = useQuery({
    queryKey: ["deployments", workspaceId, "health-counts"],
    queryFn: ({ signal }) => client.countHealth({}, { signal }),
  });
  const counts = found.data?.counts;
  const sum = (words: readonly (keyof NonNullable<typeof counts>)[]) =>
    words.reduce((total, word) => total + (counts?.[word] ?? 0), 0);
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
