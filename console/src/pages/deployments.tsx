import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { DeploymentTable, pageSize, sortableColumns, useSearchChange } from "../parts/deployment-table.tsx";
import { FirstDeployment } from "../parts/first-deployment.tsx";
import { useKeys } from "../parts/keys.ts";
import { Failure, Loading } from "../parts/notes.tsx";
import { DeploymentStatusNames, DeploymentTypeNames } from "../parts/words.ts";
import type { ListSearch } from "../search.ts";
import { useSession } from "../session.tsx";

const route = getRouteApi("/host/deployments");

/** Every deployment of the workspace, page by page: the server filters and sorts, whatever the number. */
export function DeploymentsPage() {
  const search = route.useSearch();
  const { client, workspaceId, mayChange } = useSession();
  const input = {
    limit: pageSize,
    offset: ((search.page ?? 1) - 1) * pageSize,
    ...(search.q !== undefined && { name_contains: search.q }),
    ...(search.status !== undefined && { status: search.status }),
    ...(search.type !== undefined && { deployment_type: search.type as "prod" }),
    ...(search.sort !== undefined && { sort_by: search.sort }),
    ...(search.order !== undefined && { sort_order: search.order }),
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
          <CopyAs call={{ id: "listDeployments", input, cli: commandOf(search) }} />
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

/** undefined: the command knows neither types nor orders. */
function commandOf({ q, status, type, sort, page }: ListSearch): string | undefined {
  if (type !== undefined || sort !== undefined || page !== undefined) return undefined;
  const options = [
    ...(status === undefined ? [] : [` --status ${shellWord(status)}`]),
    ...(q === undefined ? [] : [` --search ${shellWord(q)}`]),
  ];
  return `npx pierhead list${options.join("")}`;
}

/** Typing asks the server when it rests. */
const restMs = 150;

function Filters({ search }: { search: ListSearch }) {
  const change = useSearchChange();
  // Until the address has it. From then on the address is right, wherever a link or the browser's Back takes it.
  const [typed, setTyped] = useState<string>();
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (typed === undefined) return;
    if (typed === (search.q ?? "")) return setTyped(undefined);
    const timer = setTimeout(() => change({ q: typed }), restMs);
    return () => clearTimeout(timer);
  }, [typed, search.q, change]);
  useKeys({ "/": () => box.current?.focus() });
  return (
    <search className="row filters">
      <input
        ref={box}
        type="search"
        aria-label="Part of the name"
        placeholder="Part of the name   ( / )"
        value={typed ?? search.q ?? ""}
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
      <select
        className="narrow-only"
        aria-label="Order"
        value={search.sort ?? ""}
        onChange={(event) => change({ sort: event.target.value, order: undefined })}
      >
        <option value="">Newest first</option>
        {sortableColumns.map(({ by, name }) => (
          <option key={by} value={by}>
            By {name.toLowerCase()}
          </option>
        ))}
      </select>
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
