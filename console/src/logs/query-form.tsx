import { type KeyboardEvent, useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import type { LogCounts } from "../../../src/contract/logs/search.ts";
import { LogQueryError, logFields, logTermsOf, parseLogQuery } from "../../../src/domain/log-query.ts";
import { SearchField } from "../parts/search-field.tsx";
import { type Completion, completionsOf } from "./complete-query.ts";
import { refusedWithin } from "./one-deployment.ts";

interface Props {
  query: string;
  counts: LogCounts | null;
  onQuery: (query: string) => void;
  /** The log of one deployment. */
  isOne: boolean;
}

/** The query of the search. It completes fields and their values while the user types, and marks the place of a mistake. */
export function QueryForm({ query, counts, onQuery, isOne }: Props) {
  const [typed, setTyped] = useState(query);
  const [mistake, setMistake] = useState<LogQueryError | null>(null);
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    setTyped(query);
    setMistake(null);
  }, [query]);
  const submit = (text: string) => {
    try {
      parseLogQuery(text);
      if (isOne) refuseDeployments(text);
    } catch (error) {
      if (!(error instanceof LogQueryError)) throw error;
      setMistake(error);
      box.current?.focus();
      box.current?.setSelectionRange(error.position - 1, text.length);
      return;
    }
    setMistake(null);
    onQuery(text.trim());
  };
  const completion = useCompletion({ typed, setTyped, box, counts, isOne });
  return (
    <search>
      <form
        className="filters log-query"
        onSubmit={(event) => {
          event.preventDefault();
          completion.close();
          submit(typed);
        }}
      >
        <SearchField
          box={box}
          label="Query"
          placeholder={`level:error${isOne ? "" : " deployment:support"} "timed out" -health`}
          spellCheck={false}
          autoComplete="off"
          autoCapitalize="off"
          value={typed}
          aria-invalid={mistake !== null}
          aria-describedby="log-query-note"
          {...completion.input}
        >
          {completion.list}
        </SearchField>
        <button type="submit">Search</button>
      </form>
      <p
        id="log-query-note"
        className={mistake === null ? "softer" : "bad"}
        role={mistake === null ? undefined : "alert"}
      >
        {mistake === null
          ? `Words, "phrases", -without, and fields: ${logFields.filter((one) => !(isOne && refusedWithin.includes(one))).join(", ")}.`
          : `Character ${mistake.position}: ${mistake.message}`}
      </p>
    </search>
  );
}

/** @throws LogQueryError */
function refuseDeployments(text: string): void {
  const term = logTermsOf(text).find(({ field }) => field !== null && refusedWithin.includes(field));
  if (term === undefined) return;
  throw new LogQueryError("This page has the lines of one deployment. Search the others under Logs.", term.from + 1);
}

/** A list below the field. Arrows choose, Enter and Tab insert the chosen one, Escape closes. Enter without a choice searches. */
function useCompletion(props: {
  typed: string;
  setTyped: (typed: string) => void;
  box: React.RefObject<HTMLInputElement | null>;
  counts: LogCounts | null;
  isOne: boolean;
}) {
  const { typed, setTyped, box, counts, isOne } = props;
  const id = useId();
  // null: closed.
  const [cursor, setCursor] = useState<number | null>(null);
  const [chosen, setChosen] = useState(-1);
  const moveTo = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (moveTo.current === null) return;
    box.current?.setSelectionRange(moveTo.current, moveTo.current);
    moveTo.current = null;
  });
  const offered = cursor === null ? [] : completionsOf(typed, cursor, counts, isOne ? refusedWithin : []);
  const isOpen = offered.length > 0;
  const openAt = (place: number | null) => {
    setCursor(place);
    setChosen(-1);
  };
  const take = (completion: Completion) => {
    moveTo.current = completion.cursor;
    setTyped(completion.query);
    // After a field come its values.
    openAt(completion.text.endsWith(":") ? completion.cursor : null);
    box.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOpen) return;
    const completion = offered[chosen];
    if (event.key === "ArrowDown") setChosen((chosen + 1) % offered.length);
    else if (event.key === "ArrowUp") setChosen((chosen <= 0 ? offered.length : chosen) - 1);
    else if (event.key === "Escape") openAt(null);
    else if ((event.key === "Enter" || event.key === "Tab") && completion !== undefined) take(completion);
    else return;
    event.preventDefault();
  };
  return {
    close: () => openAt(null),
    input: {
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-expanded": isOpen,
      "aria-controls": isOpen ? id : undefined,
      "aria-activedescendant": chosen >= 0 && isOpen ? `${id}-${chosen}` : undefined,
      onChange: ({ target }: React.ChangeEvent<HTMLInputElement>) => {
        setTyped(target.value);
        openAt(target.selectionStart);
      },
      onKeyDown,
      onBlur: () => openAt(null),
    } as const,
    list: isOpen && (
      <div id={id} role="listbox" className="popup completions" aria-label="Completions">
        {offered.map((completion, at) => (
          // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the field, which names the chosen option.
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys.
          <div
            key={completion.text}
            id={`${id}-${at}`}
            role="option"
            aria-selected={at === chosen}
            className="menu-item"
            // The field keeps the focus.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => take(completion)}
          >
            <span className="mono">{completion.text}</span>
            {completion.count !== null && <em>{completion.count.toLocaleString("en")}</em>}
          </div>
        ))}
      </div>
    ),
  };
}
