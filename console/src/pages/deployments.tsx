import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { CopyAs } from "../parts/copy-as.tsx";
import { ConfirmByName } from "../parts/dialog.tsx";
import { FirstDeployment } from "../parts/first-deployment.tsx";
import { Failure, Loading } from "../parts/notes.tsx";
import { Status } from "../parts/status.tsx";
import { Ago } from "../parts/time.tsx";
import { useToasts } from "../parts/toasts.tsx";
import { type Deployment, DeploymentStatusNames, DeploymentTypeNames, sourceText } from "../parts/words.ts";
import type { ListSearch } from "../router.tsx";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";

const route = getRouteApi("/host/deployments");
const pageSize = 50;

/** Every deployment of the workspace, page by page: the server filters, whatever the number. */
export function DeploymentsPage() {
  const search = route.useSearch();
  const { client, workspaceId, mayChange } = useSession();
  const input = {
    limit: pageSize,
    offset: ((search.page ?? 1) - 1) * pageSize,
    ...(search.q !== undefined && { name_contains: search.q }),
    ...(search.status !== undefined && { status: search.status }),
    ...(search.type !== undefined && { deployment_type: search.type as "prod" }),
  };
  const list = useQuery({
    queryKey: ["deployments", workspaceId, input],
    queryFn: ({ signal }) => client.listDeployments(input, { signal }),
    placeholderData: keepPreviousData,
  });
  const isFiltered = search.q !== undefined || search.status !== undefined || search.type !== undefined;
  const isEmpty = list.data?.resources.length === 0 && !isFiltered && search.page === undefined;
  return (
    <>
      <div className="row spread">
        <h1>Deployments</h1>
        <div className="row">
          <CopyAs call={{ id: "listDeployments", input, cli: "npx pierhead list" }} />
          {mayChange && (
            <Link to="/host/new" className="button primary">
              New deployment
            </Link>
          )}
        </div>
      </div>
      {!isEmpty && <Filters search={search} />}
      {list.isPending && <Loading what="the deployments" />}
      {list.isError && <Failure error={list.error} retry={() => void list.refetch()} />}
      {isEmpty && <FirstDeployment />}
      {list.data && !isEmpty && <DeploymentTable rows={list.data.resources} search={search} />}
    </>
  );
}

function useSearchChange() {
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

/** Typing asks the server when it rests. */
const restMs = 150;

function Filters({ search }: { search: ListSearch }) {
  const change = useSearchChange();
  const [typed, setTyped] = useState(search.q ?? "");
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (typed === (search.q ?? "")) return;
    const timer = setTimeout(() => change({ q: typed }), restMs);
    return () => clearTimeout(timer);
  }, [typed, search.q, change]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if (event.key !== "/" || isTyping) return;
      event.preventDefault();
      box.current?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <search className="row filters">
      <input
        ref={box}
        type="search"
        aria-label="Part of the name"
        placeholder="Part of the name   ( / )"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
      <Choice
        label="Status"
        all="Any status"
        value={search.status}
        options={DeploymentStatusNames}
        onValue={(status) => change({ status })}
      />
      <Choice
        label="Type"
        all="Any type"
        value={search.type}
        options={DeploymentTypeNames}
        onValue={(type) => change({ type })}
      />
    </search>
  );
}

function Choice(props: {
  label: string;
  all: string;
  value: string | undefined;
  options: readonly string[];
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
        <option key={option}>{option}</option>
      ))}
    </select>
  );
}

function DeploymentTable({ rows, search }: { rows: Deployment[]; search: ListSearch }) {
  const { mayChange } = useSession();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const chosen = rows.filter(({ id }) => selected.has(id));
  const change = useSearchChange();
  const page = search.page ?? 1;
  const toggle = (id: string, isOn: boolean) =>
    setSelected((before) => new Set(isOn ? [...before, id] : [...before].filter((one) => one !== id)));
  if (rows.length === 0) return <p className="soft">No deployment is like that.</p>;
  return (
    <>
      {mayChange && <BulkActions chosen={chosen} onDone={() => setSelected(new Set())} />}
      <table className="list" aria-label="Deployments">
        <thead>
          <tr>
            {mayChange && (
              <th>
                <input
                  type="checkbox"
                  aria-label="Select all of this page"
                  checked={chosen.length === rows.length}
                  onChange={(event) => setSelected(new Set(event.target.checked ? rows.map(({ id }) => id) : []))}
                />
              </th>
            )}
            {["Name", "Status", "Source", "Type", "Changed"].map((name) => (
              <th key={name}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={row.id} row={row} isSelected={selected.has(row.id)} onSelect={mayChange ? toggle : undefined} />
          ))}
        </tbody>
      </table>
      <nav className="row pager" aria-label="Pages of the list">
        <button type="button" disabled={page === 1} onClick={() => change({ page: page === 2 ? undefined : page - 1 })}>
          Newer
        </button>
        <span>Page {page}</span>
        <button type="button" disabled={rows.length < pageSize} onClick={() => change({ page: page + 1 })}>
          Older
        </button>
      </nav>
    </>
  );
}

interface RowProps {
  row: Deployment;
  isSelected: boolean;
  onSelect: ((id: string, isOn: boolean) => void) | undefined;
}

function Row({ row, isSelected, onSelect }: RowProps) {
  return (
    <tr>
      {onSelect && (
        <td>
          <input
            type="checkbox"
            aria-label={`Select ${row.name}`}
            checked={isSelected}
            onChange={(event) => onSelect(row.id, event.target.checked)}
          />
        </td>
      )}
      <td data-label="Name">
        <Link to="/o/$tenantId/host/deployments/$id" params={{ tenantId: row.tenant_id, id: row.id }}>
          {row.display_name ?? row.name}
        </Link>
      </td>
      <td data-label="Status">
        <Status of={row.status} />
      </td>
      <td data-label="Source" className="clip" title={sourceText(row)}>
        {sourceText(row)}
      </td>
      <td data-label="Type">{row.source_config.deployment_type ?? "–"}</td>
      <td data-label="Changed">
        <Ago at={row.updated_at} />
      </td>
    </tr>
  );
}

function BulkActions({ chosen, onDone }: { chosen: Deployment[]; onDone: () => void }) {
  const { client } = useSession();
  const { say, fail } = useToasts();
  const [isAsking, setAsking] = useState(false);
  const remove = useMutation({
    mutationFn: () => client.deleteDeployments({ deployment_ids: chosen.map(({ id }) => id) }),
    onError: fail,
    onSuccess: ({ deleted, failed }) => {
      say(
        `${deleted.length} are being deleted${failed.length > 0 ? `, ${failed.length} failed: ${failed[0]?.detail}` : ""}.`,
      );
      setAsking(false);
      onDone();
      void queries.invalidateQueries({ queryKey: ["deployments"] });
    },
  });
  if (chosen.length === 0) return null;
  return (
    <div className="row bulk">
      <span>{chosen.length} selected</span>
      <button type="button" className="danger" onClick={() => setAsking(true)}>
        Delete …
      </button>
      {isAsking && (
        <ConfirmByName
          title={`Delete ${chosen.length} deployments`}
          name={`delete ${chosen.length}`}
          action="Delete them"
          isBusy={remove.isPending}
          onConfirm={() => remove.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>With their replicas, revisions, logs, databases and secrets:</p>
          <ul className="names">
            {chosen.map(({ id, name }) => (
              <li key={id}>{name}</li>
            ))}
          </ul>
        </ConfirmByName>
      )}
    </div>
  );
}
