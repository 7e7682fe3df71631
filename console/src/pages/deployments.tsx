import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { LayoutGrid, Plus, Rows3, Search } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { listInput, listQuery, pageSize, usualSort } from "../deployment-list.ts";
import { queryOf, withField } from "../list-query.ts";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { DeploymentTable, sortableColumns, useSearchChange, useTraffic } from "../parts/deployment-table.tsx";
import { FirstDeployment } from "../parts/first-deployment.tsx";
import { HealthChips } from "../parts/health-chips.tsx";
import { useHealthCounts } from "../parts/health-counts.ts";
import { useKeys } from "../parts/keys.ts";
import { useListeners, useListFields, useTags } from "../parts/list-fields.ts";
import { Failure, Loading, Notice } from "../parts/notices.tsx";
import { PageTitle } from "../parts/page-head.tsx";
import { usePageTitle } from "../parts/page-title.ts";
import { shareText, sumOf } from "../parts/traffic-cell.tsx";
import { type Deployment, DeploymentTypeNames, typeText } from "../parts/words.ts";
import type { ListSearch } from "../search.ts";
import { useSession } from "../session.tsx";

const route = getRouteApi("/host/deployments");

/** The deployments of the workspace, page by page. The server filters and sorts, so the list works at any size. */
export function DeploymentsPage() {
  usePageTitle("Deployments");
  const search = route.useSearch();
  const { client, workspaceId, mayChange } = useSession();
  const fields = useListFields(search.q);
  const input = listInput(search, fields.ids ?? {});
  const list = useQuery({
    ...listQuery(client, workspaceId, search, fields.ids ?? {}),
    placeholderData: keepPreviousData,
    enabled: fields.ids !== null,
  });
  const isFiltered = search.q !== undefined || search.health !== undefined || search.type !== undefined;
  const isEmpty = list.data?.resources.length === 0 && !isFiltered && search.page === undefined;
  return (
    <>
      <div className="page-head">
        <PageTitle
          title="Deployments"
          about={
            !isEmpty && <Day rows={list.data?.resources ?? []} isWhole={!isFiltered && isOnlyPage(list.data, search)} />
          }
        />
        <div className="row">
          <CopyAs call={{ id: "listDeployments", input, cli: commandOf(search) }} />
          {mayChange && (
            <Link to="/host/new" className="button primary">
              <Plus size={15} /> New deployment
            </Link>
          )}
        </div>
      </div>
      {!isEmpty && (
        <>
          <Filters search={search} isRead={list.data !== undefined || fields.problem !== null} />
          <HealthChips search={search} />
        </>
      )}
      {fields.problem !== null && <Notice kind="warn">{fields.problem}</Notice>}
      {list.isPending && fields.problem === null && <Loading what="the deployments" />}
      {list.isError && <Failure error={list.error} retry={() => void list.refetch()} />}
      {isEmpty && <FirstDeployment />}
      {list.data && !isEmpty && fields.problem === null && (
        <DeploymentTable rows={list.data.resources} search={search} isOutdated={list.isPlaceholderData} />
      )}
    </>
  );
}

const isOnlyPage = (list: { resources: unknown[] } | undefined, { page }: ListSearch) =>
  page === undefined && list !== undefined && list.resources.length < pageSize;

/** The number of deployments, and their requests of the last day if all deployments are on this page. */
function Day({ rows, isWhole }: { rows: Deployment[]; isWhole: boolean }) {
  const count = useHealthCounts()?.total;
  const traffic = useTraffic(rows) ?? [];
  const requests = sumOf(traffic.flatMap((one) => one.requests));
  const errors = sumOf(traffic.flatMap((one) => one.errors));
  // A space keeps the height of the line until the number is read.
  if (count === undefined) return <>&nbsp;</>;
  return (
    <>
      {count.toLocaleString("en")} {count === 1 ? "deployment" : "deployments"}
      {isWhole &&
        requests > 0 &&
        `, ${requests.toLocaleString("en")} requests in 24 hours, ${shareText(errors / requests)} % errors`}
    </>
  );
}

/** Returns undefined for views that the command cannot show: it has no options for type, order, listener or page. */
function commandOf({ q, health, type, sort, page }: ListSearch): string | undefined {
  if (type !== undefined || sort !== undefined || page !== undefined) return undefined;
  const { text, tags, listener } = queryOf(q);
  if (health === "attention" || listener !== undefined || tags.some((tag) => !tag.includes("="))) return undefined;
  const options = [
    ...(health === undefined ? [] : [` --health ${shellWord(health)}`]),
    ...(text === "" ? [] : [` --search ${shellWord(text)}`]),
    ...tags.map((tag) => ` --tag ${shellWord(tag)}`),
  ];
  return `npx pierhead list${options.join("")}`;
}

/** The pause in typing after which the filter asks the server. */
const typingPauseMs = 150;

const layouts = [
  { layout: undefined, name: "Show as a table", icon: <Rows3 size={15} /> },
  { layout: "cards" as const, name: "Show as cards", icon: <LayoutGrid size={15} /> },
];

/** `isRead`: the list is shown, so that the choices may be read. */
function Filters({ search, isRead }: { search: ListSearch; isRead: boolean }) {
  const change = useSearchChange();
  // Set until the address contains the text. After that the address is the truth, also after a link or the Back button.
  const [typed, setTyped] = useState<string>();
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (typed === undefined) return;
    if (typed === (search.q ?? "")) return setTyped(undefined);
    const timer = setTimeout(() => change({ q: typed }), typingPauseMs);
    return () => clearTimeout(timer);
  }, [typed, search.q, change]);
  useKeys({ "/": () => box.current?.focus() });
  return (
    <search className="filters">
      <span className="with-icon">
        <Search size={14} />
        <input
          ref={box}
          type="search"
          aria-label="Filter deployments"
          placeholder="Name, commit, author or repository"
          value={typed ?? search.q ?? ""}
          onChange={(event) => setTyped(event.target.value)}
        />
        <kbd>/</kbd>
      </span>
      <Choice
        label="Type"
        all="Any type"
        value={search.type}
        options={DeploymentTypeNames}
        textOf={typeText}
        onValue={(type) => change({ type })}
      />
      {/* Text that is typed but not in the address yet must not undo a choice. */}
      {isRead && <FieldChoices q={typed ?? search.q} onQuery={setTyped} />}
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
