import { LayoutGrid, Rows3, SlidersHorizontal } from "lucide-react";
import { useState } from "react";
import { usualSort } from "../deployment-list.ts";
import { queryOf, withField } from "../list-query.ts";
import type { ListSearch } from "../search.ts";
import { sortableColumns, useSearchChange } from "./deployment-table.tsx";
import { Dialog } from "./dialog.tsx";
import { useListeners, useTags } from "./list-fields.ts";
import { SearchField, useSearchText } from "./search-field.tsx";
import { DeploymentTypeNames, typeText } from "./words.ts";

/** The pause in typing after which the filter asks the server. */
const typingPauseMs = 150;

const layouts = [
  { layout: undefined, name: "Show as a table", icon: <Rows3 size={15} /> },
  { layout: "cards" as const, name: "Show as cards", icon: <LayoutGrid size={15} /> },
];

/** The search box of the list with its choices. On a phone the choices are in a sheet. `isRead`: the list is shown, so that the choices may be read. */
export function ListFilters({ search, isRead }: { search: ListSearch; isRead: boolean }) {
  const change = useSearchChange();
  const [text, setText] = useSearchText({
    inAddress: search.q ?? "",
    onText: (q) => change({ q }),
    pauseMs: typingPauseMs,
  });
  // Text that is typed but not in the address yet must not undo a choice.
  const choices = { search, isRead, q: text, onQuery: setText };
  return (
    <search className="filters list-filters">
      <SearchField
        label="Filter deployments"
        placeholder="Name, commit, author or repository"
        value={text}
        onText={setText}
      />
      <div className="list-choices">
        <Choices {...choices} />
      </div>
      <ChoicesSheet {...choices} />
      <fieldset className="segmented view-choice" aria-label="Layout">
        {layouts.map(({ layout, name, icon }) => (
          <button
            key={name}
            type="button"
            aria-label={name}
            title={name}
            aria-pressed={search.layout === layout}
            onClick={() => change({ layout, page: search.page })}
          >
            {icon}
          </button>
        ))}
      </fieldset>
    </search>
  );
}

interface ChoicesProps {
  search: ListSearch;
  isRead: boolean;
  q: string | undefined;
  onQuery: (q: string) => void;
}

function Choices({ search, isRead, q, onQuery }: ChoicesProps) {
  const change = useSearchChange();
  return (
    <>
      <Choice
        label="Type"
        all="Any type"
        value={search.type}
        options={DeploymentTypeNames}
        textOf={typeText}
        onValue={(type) => change({ type })}
      />
      {isRead && <FieldChoices q={q} onQuery={onQuery} />}
      <select
        aria-label="Sort by"
        value={search.sort === undefined || search.sort === usualSort ? "" : search.sort}
        onChange={(event) => change({ sort: event.target.value, order: undefined })}
      >
        <option value="">Needs a look first</option>
        <option value="created_at">Newest first</option>
        {sortableColumns
          .filter(({ by }) => by !== usualSort)
          .map(({ by, name }) => (
            <option key={by} value={by}>
              By {name.toLowerCase()}
            </option>
          ))}
      </select>
    </>
  );
}

/** The button and the sheet with the choices, which the style sheet shows in narrow windows only. */
function ChoicesSheet(props: ChoicesProps) {
  const change = useSearchChange();
  const [isOpen, setOpen] = useState(false);
  const { tags, listener } = queryOf(props.q);
  const count = tags.length + Number(listener !== undefined) + Number(props.search.type !== undefined);
  const drop = () => {
    change({ type: undefined });
    if (tags.length > 0 || listener !== undefined)
      props.onQuery(withField(withField(props.q, "tag", []), "listener", []));
  };
  return (
    <>
      <button
        type="button"
        className="open-choices"
        aria-label={count === 0 ? "Filters" : `Filters, ${count} active`}
        onClick={() => setOpen(true)}
      >
        <SlidersHorizontal size={14} /> Filters {count > 0 && <em>{count}</em>}
      </button>
      {isOpen && (
        <Dialog title="Filter and sort" onClose={() => setOpen(false)}>
          <div className="sheet-choices">
            <Choices {...props} />
          </div>
          <div className="row end">
            <button type="button" disabled={count === 0} onClick={drop}>
              Drop the filters
            </button>
            <button type="button" className="primary" onClick={() => setOpen(false)}>
              Show deployments
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** Narrows the list by tag and listener, which stand in the text as fields. Hidden where the workspace has none. */
function FieldChoices({ q, onQuery }: { q: string | undefined; onQuery: (q: string) => void }) {
  const { tags, listener } = queryOf(q);
  const texts = new Map<string, string>(
    (useTags(true).data ?? []).flatMap((tag) =>
      tag.values.map(({ name }) => [`${tag.name}=${name}`, `${tag.name}: ${name}`]),
    ),
  );
  const names = (useListeners(true).data ?? []).map(({ compute_id: name }) => name);
  const choose = (name: "tag" | "listener") => (value: string | undefined) =>
    onQuery(withField(q, name, value === undefined ? [] : [value]));
  return (
    <>
      {texts.size > 0 && (
        <Choice
          label="Tag"
          all={tags.length > 1 ? `${tags.length} tags` : "Any tag"}
          value={tags.length === 1 ? tags[0] : undefined}
          options={[...texts.keys()]}
          textOf={(value) => texts.get(value) ?? value}
          onValue={choose("tag")}
        />
      )}
      {names.length > 0 && (
        <Choice label="Listener" all="Any listener" value={listener} options={names} onValue={choose("listener")} />
      )}
    </>
  );
}

function Choice(props: {
  label: string;
  all: string;
  value: string | undefined;
  options: readonly string[];
  textOf?: (option: string) => string;
  onValue: (value: string | undefined) => void;
}) {
  return (
    <select
      aria-label={props.label}
      value={props.value ?? ""}
      onChange={(event) => props.onValue(event.target.value || undefined)}
    >
      <option value="">{props.all}</option>
      {props.options.map((option) => (
        <option key={option} value={option}>
          {props.textOf?.(option) ?? option}
        </option>
      ))}
    </select>
  );
}
