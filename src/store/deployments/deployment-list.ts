import { type RawBuilder, sql } from "kysely";
import type { DeploymentSort } from "../../contract/deployments/deployment.ts";
import { pageSizeMax, type SortOrder } from "../../contract/page.ts";
import type { Db } from "../engine/database.ts";
import { type TagConditions, taggedWith } from "./deployment-tags.ts";
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
    ["created_at", "desc"],
    ["seq", "desc"],
  ],
  updated_at: [
    ["updated_at", "desc"],
    ["seq", "desc"],
  ],
  name: [["name", "asc"]],
  status: [
    ["status", "asc"],
    ["created_at", "desc"],
    ["seq", "desc"],
  ],
};

/** One way and its exact reverse. */
function orderOf({ by = "created_at", direction }: DeploymentOrder, table = "d"): RawBuilder<unknown> {
  const columns = orders[by];
  const isTurned = direction !== undefined && direction !== columns[0]?.[1];
  const parts = columns.map(([column, usual]) => {
    const isDescending = (usual === "desc") !== isTurned;
    return sql`${sql.ref(`${table}.${column}`)} ${isDescending ? sql`desc` : sql`asc`}`;
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
  const tags = filter.tagValueIds === undefined ? noTags : await taggedWith(db, tenantId, filter.tagValueIds);
  if (tags === undefined) return [];
  const { rows } = await deploymentPage(tenantId, filter, { ...page, tags }).execute(db.kysely);
  return rows;
}

const noTags: TagConditions = { fits: [], found: [] };

/** The query of it. `tags`: further conditions. */
export function deploymentPage(
  tenantId: string,
  filter: DeploymentFilter,
  page: { limit: number; offset: number; order?: DeploymentOrder; tags?: TagConditions },
): RawBuilder<DeploymentRow> {
  const { order = {} } = page;
  const wanted = filter.name === undefined ? filter.nameContains : undefined;
  const exact = order.by === undefined && order.direction === undefined ? wanted : undefined;
  const sorted = exact === undefined ? orderOf(order) : sql`(d.name = ${exact}) desc, ${orderOf(order)}`;
  const inOrder = readInOrder(tenantId, filter, page);
  if (inOrder !== undefined && page.offset === 0) {
    const rows = sql`
      select ${deploymentColumns} from ${inOrder.from} left join secret_sets s on s.id = d.secret_set_id
       where ${inOrder.where} order by ${inOrder.sorted}`;
    return cut(rows, page);
  }
  // Whole rows are put together for those of the page alone, not for those that are passed over.
  return sql<DeploymentRow>`
    select ${deploymentColumns} from (${deploymentKeys(tenantId, filter, { ...page, exact })}) page
      join deployments d on d.id = page.id left join secret_sets s on s.id = d.secret_set_id
     order by ${sorted}`;
}

/** What an index gives in the order of the page, so that nothing is passed over, or sorted. undefined: no index does. */
function readInOrder(
  tenantId: string,
  filter: DeploymentFilter,
  { order = {}, tags = noTags }: { order?: DeploymentOrder; tags?: TagConditions },
) {
  const { inOrder, others } = conditionsOn(tenantId, filter, tags);
  if (others.length === 0) return { from: sql`deployments d`, where: all(inOrder), sorted: orderOf(order) };
  const { tagValueIds: _, ...rest } = filter;
  const isOfTags = Object.values(rest).every((value) => value === undefined);
  if (tags.rarest === undefined || !isOfTags || (order.by ?? "created_at") !== "created_at") return undefined;
  const { valueId, others: otherTags } = tags.rarest;
  return {
    from: sql`deployment_tags t join deployments d on d.id = t.deployment_id`,
    where: all([
      sql`t.tag_value_id = ${valueId}`,
      isOf(tenantId),
      ...conditionsInOrder(tenantId, filter),
      ...otherTags,
    ]),
    sorted: orderOf(order, "t"),
  };
}

/** What a list can be ordered by. */
const keys = sql.raw("d.id, d.seq, d.name, d.status, d.created_at, d.updated_at");

/** Looked at in the order of the page before any is searched for: enough where 1 of 10 fits, and less than 1 ms. */
const walkRows = 1_000;

/** Days that are searched one by one, 0.1 ms each: from 300 deployments a day on, enough where 1 of 200 fits. */
const searchedDays = 64;

/** From so many among those walked on it is no chance that they are. */
const hintMin = 3;

/** As many are found and sorted, about 15 ms; where more fit, walking on finds a page of them as soon. */
const foundMax = 10_000;

/**
 * The deployments of a page. `exact`: one of this name comes first.
 *
 * What no index gives in the order of the page is had in one of four ways, and which one shows only on the way, as no
 * statistics know how often a part of a name occurs: walking a little in that order; else by the index of parts, day by
 * day, if as many fit on each day as among those walked; else all that fit, by an index; else, as they are many, walking on.
 */
export function deploymentKeys(
  tenantId: string,
  filter: DeploymentFilter,
  page: {
    limit: number;
    offset: number;
    order?: DeploymentOrder;
    tags?: TagConditions;
    exact?: string | undefined;
  },
): RawBuilder<unknown> {
  const { limit, offset, order = {}, tags = noTags, exact } = page;
  const sorted = orderOf(order);
  const read = readInOrder(tenantId, filter, page);
  if (read !== undefined) {
    const { from, where } = read;
    // The id alone, so that the index of the page tells enough of those that are passed over.
    return cut(sql`select d.id from ${from} where ${where} order by ${read.sorted}`, page);
  }
  const { inOrder, others } = conditionsOn(tenantId, filter, tags);
  const end = limit + offset;
  const depth = walkRows + offset;
  const sought = [...partsOf(tenantId, filter), ...tags.found];
  const named = sql`select ${keys} from deployments d where ${all([...inOrder, ...others, sql`d.name = ${exact}`])} union`;
  return sql`
    with walked as materialized (
      ${cut(sql`select ${keys}, d.listener_id from deployments d where ${all(inOrder)} order by ${sorted}`, { limit: depth, most: walkRows })}
    ), met as materialized (
      ${cut(sql`select ${keys} from walked d where ${all(others)}`, { limit: end })}
    ), near as materialized (
      ${nearest(tenantId, filter, { order, conditions: [...inOrder, ...others], end })}
    ), found as materialized (
      ${cut(
        sql`select ${keys} from deployments d where ${all([...sought, isOf(tenantId), ...conditionsInOrder(tenantId, filter), ...conditionsOf(filter)])}
               and greatest((select count(*) from met), (select count(*) from near)) < ${end}
               and (select count(*) from walked) = ${depth}`,
        { limit: foundMax, most: foundMax },
      )}
    ), further as materialized (
      ${cut(
        sql`select ${keys} from deployments d where ${all([...inOrder, ...others])}
               and (select count(*) from found) = ${sql.lit(foundMax)} order by ${sorted}`,
        { limit: end },
      )}
    )
    select * from (
      ${exact === undefined ? sql`` : named}
      select * from met union select * from near union select * from found union select * from further) d
     order by ${exact === undefined ? sql`` : sql`(d.name = ${exact}) desc,`} ${sorted} limit ${limit} offset ${offset}`;
}

/**
 * Those of the days at the beginning of the list that have a part of a name, if those that were walked let expect a page
 * of them. Sorted day by day, not all of them: so it ends with the day that fills the page.
 */
function nearest(
  tenantId: string,
  filter: DeploymentFilter,
  { order, conditions, end }: { order: DeploymentOrder; conditions: RawBuilder<unknown>[]; end: number },
): RawBuilder<unknown> {
  const parts = partsOf(tenantId, filter);
  const { by = "created_at", direction = "desc" } = order;
  if (parts.length === 0 || by !== "created_at") return sql`select ${keys} from deployments d where false`;
  const day =
    direction === "desc" ? sql`(created_on(newest))[1] - days.passed` : sql`(created_on(oldest))[1] + days.passed`;
  const found = sql`
    select d.* from (select min(created_at) as oldest, max(created_at) as newest from walked) walk,
           generate_series(0, ${sql.lit(searchedDays - 1)}) days (passed),
           lateral (
             select ${keys} from deployments d where ${all([...parts, sql`created_on(d.created_at) @> array[${day}]`])}
                and ${all(conditions)} order by ${orderOf(order)} offset 0) d
     where (select count(*) from met) between ${sql.lit(hintMin)} and ${end}::bigint - 1
       and (select count(*) from met)::float8 * interval ${sql.lit(`${searchedDays} days`)} >= (newest - oldest) * ${end}::float8
       and (select count(*) from walked) >= ${sql.lit(walkRows)}`;
  return cut(found, { limit: end });
}

/**
 * The beginning of a query, in its order. The most it can be is in the text: of a limit that is a parameter PostgreSQL
 * knows nothing while it makes a plan to be kept, and takes a tenth of what there is. A tenth of all rows would look so
 * bad, as soon as there are many, that it planned anew for each page, 0.3 to 1 ms; a tenth of a page looks good.
 */
function cut<Row>(
  query: RawBuilder<unknown>,
  { limit, offset = 0, most = pageSizeMax }: { limit: number; offset?: number; most?: number },
): RawBuilder<Row> {
  const first = limit + offset > most ? query : sql`select * from (${query} limit ${sql.lit(most)}) longest`;
  return sql<Row>`${first} limit ${limit} ${offset === 0 ? sql`` : sql`offset ${offset}`}`;
}

/** Those that an index gives in the order of the page, and the others. */
function conditionsOn(tenantId: string, filter: DeploymentFilter, tags = noTags) {
  const inOrder = [sql`d.tenant_id = ${tenantId}`, ...conditionsInOrder(tenantId, filter)];
  return { inOrder, others: [...conditionsOf(filter), ...tags.fits] };
}

/**
 * Of the workspace, where another condition finds them: so written that no index is read for it, and that nobody expects
 * it to leave out most of what was found.
 */
const isOf = (tenantId: string) => sql`coalesce(d.tenant_id = ${tenantId}, false)`;

const all = (conditions: readonly RawBuilder<unknown>[]) => sql.join(conditions, sql` and `);

/** Those being deleted no longer count: their place is free at once. */
export async function countFreeDeployments(db: Db, organizationId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from deployments d join workspaces w on w.id = d.tenant_id
     where w.organization_id = ${organizationId} and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')
       and d.source_config ->> 'deployment_type' in ('dev_free', 'dev_free_zero')`.execute(db.kysely);
  return rows[0]?.count ?? 0;
}

/** What an index gives in the order that most pages have, or what fits a handful. */
function conditionsInOrder(tenantId: string, filter: DeploymentFilter): RawBuilder<unknown>[] {
  const { name, status, ids, imageVersion, deploymentType, address, agentId, agentEnvironment } = filter;
  const found: RawBuilder<unknown>[] = [];
  if (name !== undefined) found.push(sql`d.name = ${name}`);
  if (status !== undefined) found.push(sql`d.status = ${status}`);
  if (ids !== undefined) found.push(sql`d.id = any(${ids}::uuid[])`);
  if (status === undefined && ids === undefined) {
    found.push(sql`d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')`);
  }
  if (imageVersion !== undefined) found.push(sql`d.image_version = ${imageVersion}`);
  // Images from outside have no type; answers call it prod.
  if (deploymentType !== undefined) {
    found.push(sql`coalesce(d.source_config ->> 'deployment_type', 'prod') = ${deploymentType}`);
  }
  if (address !== undefined) found.push(isAt(tenantId, address));
  if (agentId !== undefined) found.push(sql`d.agent_id = ${agentId}`);
  // Only with an agent there is an environment of one: so said, that index is of use.
  if (agentEnvironment !== undefined) {
    found.push(sql`d.agent_id is not null and d.agent_environment = ${agentEnvironment}`);
  }
  return found;
}

/** What cannot be read off in the order of the page. */
function conditionsOf(filter: DeploymentFilter): RawBuilder<unknown>[] {
  const { nameContains, isRemote } = filter;
  const found: RawBuilder<unknown>[] = [];
  if (nameContains !== undefined) found.push(sql`strpos(lower(d.name), lower(${nameContains})) > 0`);
  if (isRemote !== undefined) {
    found.push(sql`d.listener_id in (select l.id from listeners l where l.builtin = ${!isRemote})`);
  }
  return found;
}

/**
 * Lets a part of a name be found by the index of such; one of a letter or two is in no index. Groups of letters side by
 * side, and the last one, as those between say little more; and of these the rare ones.
 */
function partsOf(tenantId: string, { nameContains = "" }: DeploymentFilter): RawBuilder<unknown>[] {
  if ([...nameContains].length < 3) return [];
  const last = sql`length(${nameContains}) - 2`;
  // In a query of its own: else it would be asked for again with each day.
  return [
    sql`name_parts(d.tenant_id, d.name) @> (select rare_parts(array(
      select left(${tenantId}::text, 8) || substr(lower(${nameContains}), i, 3)
        from (select generate_series(1, ${last}, 3) union select ${last}) at (i))))`,
  ];
}

/**
 * The few that can be at an address are looked up: by it, by the slug in it, and by what stands at the place of the slug
 * in the addresses of each data plane; of one whose addresses have the namespace in them, all are.
 */
function isAt(tenantId: string, { slug, customUrl }: { slug: string | null; customUrl: string }): RawBuilder<unknown> {
  const template = sql`(l.facts ->> 'agents_url')`;
  const around = sql`length(replace(${template}, '{slug}', ''))`;
  const times = sql`nullif((length(${template}) - ${around}) / 6, 0)`;
  const placed = sql`regexp_replace(${template}, '\\{namespace:([^}]*)\\}',
    coalesce(d.source_config #>> '{listener_config,k8s_namespace}', '\\1'))`;
  const agentsUrl = sql`(select replace(${placed}, '{slug}', d.slug) from listeners l where l.id = d.listener_id)`;
  return sql`d.id = any(array(
      select c.id from deployments c where c.tenant_id = ${tenantId} and c.source_config ->> 'custom_url' = ${customUrl}
      union all select c.id from deployments c where c.slug = ${slug}
      union all
      select c.id from listeners l join deployments c
          on c.slug = substr(${customUrl}, strpos(${template}, '{slug}'), greatest(0, (length(${customUrl}) - ${around}) / ${times}))
       where l.builtin or l.tenant_id = ${tenantId}
      union all
      select c.id from listeners l join deployments c on c.listener_id = l.id
       where ${template} = ${customUrl} or (strpos(${template}, '{namespace:') > 0 and l.tenant_id = ${tenantId})))
    and coalesce(coalesce(d.source_config ->> 'custom_url', ${agentsUrl}) = ${customUrl}, d.slug = ${slug})`;
}
