import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ArrowDown, ArrowUp, ChevronsUpDown } from "lucide-react";
import { useCallback, useRef, useState } from "react";
import type { DeploymentSort } from "../../../src/contract/deployments/deployment.ts";
import type { SortOrder } from "../../../src/contract/page.ts";
import { pageSize, usualSort } from "../deployment-list.ts";
import type { ListSearch } from "../search.ts";
import { useSession } from "../session.tsx";
import { BulkActions } from "./bulk-actions.tsx";
import { DeploymentRow } from "./deployment-row.tsx";
import { useKeys } from "./keys.ts";
import type { DeploymentTraffic } from "./traffic-cell.tsx";
import type { Deployment } from "./words.ts";

/** One page of the list. `isOutdated`: the rows of another search are shown until those of this one arrive. `j` and `k` move through the rows, `x` selects a row, Enter opens it. */
export function DeploymentTable(props: { rows: Deployment[]; search: ListSearch; isOutdated: boolean }) {
  const { rows, search, isOutdated } = props;
  const { mayChange } = useSession();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const { summaries, traffic } = useRowData(rows);
  const chosen = rows.filter(({ id }) => selected.has(id));
  const page = search.page ?? 1;
  const body = useRef<HTMLTableSectionElement>(null);
  const at = () => [...(body.current?.rows ?? [])].findIndex((row) => row.contains(document.activeElement));
  const goTo = (index: number) => body.current?.rows[index]?.querySelector("a")?.focus();
  useKeys({
    j: () => goTo(Math.min(at() + 1, rows.length - 1)),
    k: () => goTo(Math.max(at() - 1, 0)),
    x: () => body.current?.rows[at()]?.querySelector<HTMLElement>("input[type=checkbox]")?.click(),
  });
  // Stable, so that a tick draws one row and not all.
  const toggle = useCallback(
    (id: string, isOn: boolean) =>
      setSelected((before) => new Set(isOn ? [...before, id] : [...before].filter((one) => one !== id))),
    [],
  );
  if (rows.length === 0)
    return (
      <>
        <section className="card blank">
          <h2>{page === 1 ? "No deployments match these filters." : "There are no more deployments."}</h2>
          {page === 1 && <ShowAll />}
        </section>
        {page > 1 && <Pager page={page} isLast />}
      </>
    );
  return (
    <>
      <table
        className={search.layout === "cards" ? "list deployments as-cards" : "list deployments"}
        aria-label="Deployments"
        aria-busy={isOutdated}
      >
        <thead>
          <tr>
            {mayChange && (
              <th className="tick">
                <label>
                  <input
                    type="checkbox"
                    aria-label="Select all on this page"
                    checked={chosen.length === rows.length}
                    onChange={(event) => setSelected(new Set(event.target.checked ? rows.map(({ id }) => id) : []))}
                  />
                  <span className="narrow-only">Select all</span>
                </label>
              </th>
            )}
            <SortableHead column={byName} search={search} />
            <SortableHead column={byHealth} search={search} />
            <th>Last deploy</th>
            <th>Requests, 24 h</th>
            <td />
          </tr>
        </thead>
        <tbody ref={body}>
          {rows.map((row) => (
            <DeploymentRow
              key={row.id}
              row={row}
              summary={summaries.get(row.id)}
              traffic={traffic.get(row.id)}
              isSelected={selected.has(row.id)}
              onSelect={mayChange ? toggle : undefined}
            />
          ))}
        </tbody>
      </table>
      <Pager page={page} isLast={rows.length < pageSize} />
      {mayChange && <BulkActions chosen={chosen} onDone={() => setSelected(new Set())} />}
    </>
  );
}

/** The requests of a day change slowly, and reading them for each event would cost more than the list. */
const trafficRenewMs = 60_000;

/** Reads what the rows show beside the deployments. The rows appear without waiting for it. */
function useRowData(rows: Deployment[]) {
  const { client, workspaceId } = useSession();
  const ids = rows.map(({ id }) => id);
  const isEnabled = ids.length > 0;
  const summaries = useQuery({
    queryKey: ["deployments", workspaceId, "summaries", ids],
    queryFn: ({ signal }) => client.readSummaries({ deployment_ids: ids }, { signal }),
    placeholderData: keepPreviousData,
    enabled: isEnabled,
  });
  const traffic = useTraffic(rows);
  return {
    summaries: new Map(summaries.data?.deployments.map((one) => [one.deployment_id, one])),
    traffic: new Map(traffic?.map((one) => [one.deployment_id, one])),
  };
}

/** Returns the traffic of these deployments in the last day. undefined: not read yet. */
export function useTraffic(rows: readonly Deployment[]): DeploymentTraffic[] | undefined {
  const { client, workspaceId } = useSession();
  const ids = rows.map(({ id }) => id);
  const traffic = useQuery({
    queryKey: ["traffic", workspaceId, ids],
    queryFn: ({ signal }) => client.readTraffic({ deployment_ids: ids }, { signal }),
    placeholderData: keepPreviousData,
    staleTime: trafficRenewMs,
    refetchInterval: trafficRenewMs,
    enabled: ids.length > 0,
  });
  return traffic.data?.deployments;
}

function ShowAll() {
  const change = useSearchChange();
  return (
    <button type="button" onClick={() => change({ q: undefined, health: undefined, type: undefined })}>
      Show all deployments
    </button>
  );
}

function Pager({ page, isLast }: { page: number; isLast: boolean }) {
  const change = useSearchChange();
  if (page === 1 && isLast) return null;
  return (
    <nav className="row pager" aria-label="Pages of the list">
      <button type="button" disabled={page === 1} onClick={() => change({ page: page === 2 ? undefined : page - 1 })}>
        Previous
      </button>
      <span>Page {page}</span>
      <button type="button" disabled={isLast} onClick={() => change({ page: page + 1 })}>
        Next
      </button>
    </nav>
  );
}

interface SortableColumn {
  name: string;
  by: DeploymentSort;
  usual: SortOrder;
}

const byName: SortableColumn = { name: "Name", by: "name", usual: "asc" };
const byHealth: SortableColumn = { name: "Health", by: "health", usual: "asc" };
const byChange: SortableColumn = { name: "Last change", by: "updated_at", usual: "desc" };

/** The columns that the server can sort by. */
export const sortableColumns = [byName, byHealth, byChange];

/** A column header that sorts by its column. A second click reverses the order. */
function SortableHead({ column: { name, by, usual }, search }: { column: SortableColumn; search: ListSearch }) {
  const change = useSearchChange();
  const order = (search.sort ?? usualSort) === by ? (search.order ?? usual) : undefined;
  const words = { asc: "ascending", desc: "descending" } as const;
  const Icon = order === undefined ? ChevronsUpDown : order === "asc" ? ArrowUp : ArrowDown;
  const next = order === usual ? (usual === "asc" ? "desc" : "asc") : undefined;
  return (
    <th aria-sort={order === undefined ? "none" : words[order]}>
      <button type="button" className="sort" onClick={() => change({ sort: by, order: next })}>
        {name} <Icon size={12} />
      </button>
    </th>
  );
}

/** Changes the search part of the list's address and returns to the first page. */
export function useSearchChange() {
  const navigate = useNavigate({ from: "/host/deployments" });
  return (change: Partial<Record<keyof ListSearch, string | number | undefined>>) =>
    void navigate({
      search: (before: ListSearch) => {
        const merged = { ...before, page: undefined, ...change };
        return Object.fromEntries(
          Object.entries(merged).filter(([, value]) => value !== undefined && value !== ""),
        ) as ListSearch;
      },
      replace: true,
    });
}
