import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { listInput, listQuery, pageSize } from "../deployment-list.ts";
import { queryOf } from "../list-query.ts";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { DeploymentTable, useTraffic } from "../parts/deployment-table.tsx";
import { FirstDeployment } from "../parts/first-deployment.tsx";
import { HealthChips } from "../parts/health-chips.tsx";
import { useHealthCounts } from "../parts/health-counts.ts";
import { useListFields } from "../parts/list-fields.ts";
import { ListFilters } from "../parts/list-filters.tsx";
import { Failure, Loading, Notice } from "../parts/notices.tsx";
import { PageTitle } from "../parts/page-head.tsx";
import { usePageTitle } from "../parts/page-title.ts";
import { shareText, sumOf } from "../parts/traffic-cell.tsx";
import type { Deployment } from "../parts/words.ts";
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
          <ListFilters search={search} isRead={list.data !== undefined || fields.problem !== null} />
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
