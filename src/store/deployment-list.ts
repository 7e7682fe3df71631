import { type RawBuilder, sql } from "kysely";
import type { DeploymentSort } from "../contract/deployment.ts";
import type { SortOrder } from "../contract/page.ts";
import type { Db } from "./database.ts";
import { taggedWith } from "./deployment-tags.ts";
import { type DeploymentRow, deploymentColumns } from "./deployments.ts";

/** Absent means: no matter. */
export interface DeploymentFilter {
  name?: string | undefined;
  /** Part of the name, in any case. */
  nameContains?: string | undefined;
  /** Any text; one that is no status matches nothing. */
  status?: string | undefined;
  isRemote?: boolean | undefined;
  imageVersion?: string | undefined;
  deploymentType?: string | undefined;
  ids?: readonly string[] | undefined;
  /** Either address under which a deployment can be known. */
  address?: { slug: string | null; customUrl: string } | undefined;
  agentId?: string | undefined;
  agentEnvironment?: string | undefined;
  /** Values of tags: of each tag among them a deployment has at least one. */
  tagValueIds?: readonly string[] | undefined;
}

export interface DeploymentOrder {
  /** undefined: as clients expect that name none. */
  by?: DeploymentSort | undefined;
  /** undefined: times from the newest, texts from A. */
  direction?: SortOrder | undefined;
}

/** Columns of each order as they mostly are wanted. Each is an index of its own, which is read backwards for the other way. */
const orders: Record<DeploymentSort, readonly (readonly [column: string, direction: SortOrder])[]> = {
  created_at: [
    ["d.created_at", "desc"],
    ["d.seq", "desc"],
  ],
  updated_at: [
    ["d.updated_at", "desc"],
    ["d.seq", "desc"],
  ],
  name: [["d.name", "asc"]],
  status: [
    ["d.status", "asc"],
    ["d.created_at", "desc"],
    ["d.seq", "desc"],
  ],
};

/** One way and its exact reverse. */
function orderOf({ by = "created_at", direction }: DeploymentOrder): RawBuilder<unknown> {
  const columns = orders[by];
  const isTurned = direction !== undefined && direction !== columns[0]?.[1];
  const parts = columns.map(([column, usual]) => {
    const isDescending = (usual === "desc") !== isTurned;
    return sql`${sql.ref(column)} ${isDescending ? sql`desc` : sql`asc`}`;
  });
  return sql.join(parts);
}

/**
 * One page of a workspace's deployments. Unless an order is asked for, an exact hit of the name comes first, because most
 * clients read only the first page, then the newest. Those being deleted are left out unless asked for by status or id
 * (contract 3.2 D1).
 */
export async function listDeployments(
  db: Db,
  tenantId: string,
  filter: DeploymentFilter,
  page: { limit: number; offset: number; order?: DeploymentOrder },
): Promise<DeploymentRow[]> {
  const tags = filter.tagValueIds === undefined ? [] : await taggedWith(db, tenantId, filter.tagValueIds);
  if (tags === undefined) return [];
  const { rows } = await deploymentPage(tenantId, filter, { ...page, tags }).execute(db.kysely);
  return rows;
}

/** The query of it. `tags`: further conditions. */
export function deploymentPage(
  tenantId: string,
  filter: DeploymentFilter,
  page: { limit: number; offset: number; order?: DeploymentOrder; tags?: readonly RawBuilder<unknown>[] },
): RawBuilder<DeploymentRow> {
  const { limit, offset, order = {}, tags = [] } = page;
  const wanted = filter.name ?? filter.nameContains;
  const isOrdered = order.by !== undefined || order.direction !== undefined;
  const exactFirst = wanted === undefined || isOrdered ? sql`` : sql`(d.name = ${wanted}) desc,`;
  return sql<DeploymentRow>`
    select ${deploymentColumns} from deployments d left join secret_sets s on s.id = d.secret_set_id
     where ${sql.join([sql`d.tenant_id = ${tenantId}`, ...conditionsOf(filter), ...tags], sql` and `)}
     order by ${exactFirst} ${orderOf(order)} limit ${limit} offset ${offset}`;
}

/** Those being deleted no longer count: their place is free at once. */
export async function countFreeDeployments(db: Db, organizationId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from deployments d join workspaces w on w.id = d.tenant_id
     where w.organization_id = ${organizationId} and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')
       and d.source_config ->> 'deployment_type' in ('dev_free', 'dev_free_zero')`.execute(db.kysely);
  return rows[0]?.count ?? 0;
}

function conditionsOf(filter: DeploymentFilter): RawBuilder<unknown>[] {
  const { name, nameContains, status, isRemote, imageVersion, deploymentType, ids, address } = filter;
  const { agentId, agentEnvironment } = filter;
  const found: RawBuilder<unknown>[] = [];
  if (name !== undefined) found.push(sql`d.name = ${name}`);
  if (nameContains !== undefined) found.push(sql`strpos(lower(d.name), lower(${nameContains})) > 0`);
  if (status !== undefined) found.push(sql`d.status = ${status}`);
  if (ids !== undefined) found.push(sql`d.id = any(${ids}::uuid[])`);
  if (status === undefined && ids === undefined) {
    found.push(sql`d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')`);
  }
  if (isRemote !== undefined) {
    found.push(sql`d.listener_id in (select l.id from listeners l where l.builtin = ${!isRemote})`);
  }
  if (imageVersion !== undefined) found.push(sql`d.image_version = ${imageVersion}`);
  // Images from outside have no type; answers call it prod.
  if (deploymentType !== undefined) {
    found.push(sql`coalesce(d.source_config ->> 'deployment_type', 'prod') = ${deploymentType}`);
  }
  if (address !== undefined) {
    const agentsUrl = sql`(select replace(l.facts ->> 'agents_url', '{slug}', d.slug) from listeners l where l.id = d.listener_id)`;
    found.push(
      sql`coalesce(coalesce(d.source_config ->> 'custom_url', ${agentsUrl}) = ${address.customUrl}, d.slug = ${address.slug})`,
    );
  }
  if (agentId !== undefined) found.push(sql`d.agent_id = ${agentId}`);
  if (agentEnvironment !== undefined) found.push(sql`d.agent_environment = ${agentEnvironment}`);
  return found;
}
