import type { DeploymentSort } from "../../contract/deployments/deployment.ts";
import type { HealthWord } from "../../contract/deployments/health.ts";
import { pageSizeMax, type SortOrder } from "../../contract/page.ts";
import type { Db } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { isOfAgent } from "./agent-columns.ts";
import { type TagConditions, taggedWith } from "./deployment-tags.ts";
import { type ListedDeploymentRow, listedColumns, listedSize } from "./deployments.ts";

/** Filters of a list; an absent one does not filter. */
export interface DeploymentFilter {
  name?: string | undefined;
  /** Part of the name, in any case. */
  nameContains?: string | undefined;
  /** Part of a text that people know it by: names, repository, image, message and author of the newest commit; in any case. */
  textContains?: string | undefined;
  /** Any text; one that is not a status matches nothing. */
  status?: string | undefined;
  health?: readonly HealthWord[] | undefined;
  isRemote?: boolean | undefined;
  listenerId?: string | undefined;
  imageVersion?: string | undefined;
  deploymentType?: string | undefined;
  ids?: readonly string[] | undefined;
  /** An address of a deployment: its slug or its custom URL. */
  address?: { slug: string | null; customUrl: string } | undefined;
  agentId?: string | undefined;
  agentEnvironment?: string | undefined;
  /** Ids of tag values: a deployment needs at least one value of each tag among them. */
  tagValueIds?: readonly string[] | undefined;
}

export interface DeploymentOrder {
  /** undefined: the default order, by creation. */
  by?: DeploymentSort | undefined;
  /** undefined: newest first for times, A first for texts. */
  direction?: SortOrder | undefined;
}

/** Columns of each order in its usual direction. Each has an index, which is read backwards for the other direction. */
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
  health: [
    ["health", "asc"],
    ["created_at", "desc"],
    ["seq", "desc"],
  ],
};

/** Returns one direction or its exact reverse. */
function orderOf({ by = "created_at", direction }: DeploymentOrder, table = "d"): Sql {
  const columns = orders[by];
  const isTurned = direction !== undefined && direction !== columns[0]?.[1];
  const parts = columns.map(([column, usual]) => {
    const isDescending = (usual === "desc") !== isTurned;
    return sql`${sql.identifier(`${table}.${column}`)} ${isDescending ? sql`desc` : sql`asc`}`;
  });
  return sql.join(parts);
}

/**
 * Returns one page of a workspace's deployments. Unless an order is asked for, an exact match of the name comes first,
 * because most clients read only the first page, then the newest. Deployments that are being deleted are left out unless
 * the filter asks for them by status or id (contract 3.2 D1).
 */
export async function listDeployments(
  db: Db,
  tenantId: string,
  filter: DeploymentFilter,
  page: { limit: number; offset: number; order?: DeploymentOrder },
): Promise<ListedDeploymentRow[]> {
  const tags = filter.tagValueIds === undefined ? noTags : await taggedWith(db, tenantId, filter.tagValueIds);
  if (tags === undefined) return [];
  const { rows } = await db.query<ListedDeploymentRow>(deploymentPage(tenantId, filter, { ...page, tags }));
  return rows;
}

const noTags: TagConditions = { fits: [], found: [] };

/** Builds the query of a page. `tags`: further conditions. */
export function deploymentPage(
  tenantId: string,
  filter: DeploymentFilter,
  page: { limit: number; offset: number; order?: DeploymentOrder; tags?: TagConditions },
): Sql {
  const { order = {} } = page;
  const wanted = filter.name === undefined ? (filter.nameContains ?? filter.textContains) : undefined;
  const exact = order.by === undefined && order.direction === undefined ? wanted : undefined;
  const sorted = exact === undefined ? orderOf(order) : sql`(d.name = ${exact}) desc, ${orderOf(order)}`;
  const inOrder = readInOrder(tenantId, filter, page);
  if (inOrder !== undefined && page.offset === 0) {
    const rows = sql`
      select ${listedColumns} from ${inOrder.from} left join secret_sets s on s.id = d.secret_set_id ${listedSize}
       where ${inOrder.where} order by ${inOrder.sorted}`;
    return cut(rows, page);
  }
  // Join whole rows only for the page itself, not for the rows that the offset skips.
  return sql`
    select ${listedColumns} from (${deploymentKeys(tenantId, filter, { ...page, exact })}) page
      join deployments d on d.id = page.id left join secret_sets s on s.id = d.secret_set_id ${listedSize}
     order by ${sorted}`;
}

/** Returns what an index delivers in the order of the page, so that nothing is skipped or sorted; undefined when no index does. */
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

/** The columns that a list can be ordered by. */
const keys = sql.raw("d.id, d.seq, d.name, d.status, d.health, d.created_at, d.updated_at");

/** Rows scanned in page order before an index search starts: enough when 1 of 10 matches, and less than 1 ms. */
const walkRows = 1_000;

/**
 * Maximum days that are searched one by one, 0.1 ms each. With 300 deployments a day or more, they fill a page if 1 of
 * 200 matches.
 */
const searchedDays = 64;

/** From this many matches among the scanned rows, the share of matches is not a coincidence. */
const hintMin = 3;

/** Matches that are collected and sorted, about 15 ms. When more match, continuing the scan fills a page as fast. */
const foundMax = 10_000;

/**
 * Builds the query for the ids of a page. `exact`: a deployment with this name comes first.
 *
 * When no index delivers the order of the page, the query has four strategies and chooses while it runs, because no
 * statistics tell how often a part of a name occurs. It scans a little in page order. If that does not fill the page, it
 * searches the index of name parts day by day, provided as many match per day as among the scanned rows. Otherwise it
 * collects all matches by an index. If those are too many, it continues the scan.
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
): Sql {
  const { limit, offset, order = {}, tags = noTags, exact } = page;
  const sorted = orderOf(order);
  const read = readInOrder(tenantId, filter, page);
  if (read !== undefined) {
    const { from, where } = read;
    // Select only the id, so that the index of the page suffices for the skipped rows.
    return cut(sql`select d.id from ${from} where ${where} order by ${read.sorted}`, page);
  }
  const { inOrder, others } = conditionsOn(tenantId, filter, tags);
  const end = limit + offset;
  const depth = walkRows + offset;
  const sought = [...partsOf(tenantId, filter), ...tags.found];
  // Without a condition that an index finds, the index of the workspace keeps the search out of other workspaces.
  const found = sought.length === 0 ? [sql`d.tenant_id = ${tenantId}`] : [...sought, isOf(tenantId)];
  const walked = filter.textContains === undefined ? sql`${keys}, d.listener_id` : sql`d.*`;
  const named = sql`select ${keys} from deployments d where ${all([...inOrder, ...others, sql`d.name = ${exact}`])} union`;
  return sql`
    with walked as materialized (
      ${cut(sql`select ${walked} from deployments d where ${all(inOrder)} order by ${sorted}`, { limit: depth, most: walkRows })}
    ), met as materialized (
      ${cut(sql`select ${keys} from walked d where ${all(others)}`, { limit: end })}
    ), near as materialized (
      ${nearest(tenantId, filter, { order, conditions: [...inOrder, ...others], end })}
    ), found as materialized (
      ${cut(
        sql`select ${keys} from deployments d where ${all([...found, ...conditionsInOrder(tenantId, filter), ...conditionsOf(filter)])}
               and greatest((select count(*) from met), (select count(*) from near)) < ${end}
               and (select count(*) from walked) = ${depth}`,
        { limit: foundMax, most: foundMax },
      )}
    ), further as materialized (
      ${cut(
        sql`select ${keys} from deployments d where ${all([...inOrder, ...others])}
               and (select count(*) from found) = ${sql.literal(foundMax)} order by ${sorted}`,
        { limit: end },
      )}
    )
    select * from (
      ${exact === undefined ? sql`` : named}
      select * from met union select * from near union select * from found union select * from further) d
     order by ${exact === undefined ? sql`` : sql`(d.name = ${exact}) desc,`} ${sorted} limit ${limit} offset ${offset}`;
}

/**
 * Builds the search of name parts in the days at the start of the list, if the scanned rows suggest that it fills a page.
 * It sorts day by day instead of all matches, so it ends with the day that fills the page.
 */
function nearest(
  tenantId: string,
  filter: DeploymentFilter,
  { order, conditions, end }: { order: DeploymentOrder; conditions: Sql[]; end: number },
): Sql {
  const parts = partsOf(tenantId, filter);
  const { by = "created_at", direction = "desc" } = order;
  if (parts.length === 0 || by !== "created_at") return sql`select ${keys} from deployments d where false`;
  const day =
    direction === "desc" ? sql`(created_on(newest))[1] - days.passed` : sql`(created_on(oldest))[1] + days.passed`;
  const found = sql`
    select d.* from (select min(created_at) as oldest, max(created_at) as newest from walked) walk,
           generate_series(0, ${sql.literal(searchedDays - 1)}) days (passed),
           lateral (
             select ${keys} from deployments d where ${all([...parts, sql`created_on(d.created_at) @> array[${day}]`])}
                and ${all(conditions)} order by ${orderOf(order)} offset 0) d
     where (select count(*) from met) between ${sql.literal(hintMin)} and ${end}::bigint - 1
       and (select count(*) from met)::float8 * interval ${sql.literal(`${searchedDays} days`)} >= (newest - oldest) * ${end}::float8
       and (select count(*) from walked) >= ${sql.literal(walkRows)}`;
  return cut(found, { limit: end });
}

/**
 * Limits a query to its start, in its order. The largest possible limit is part of the text, because PostgreSQL ignores a
 * parameter as limit when it makes a generic plan, and assumes a tenth of the rows. With many rows that plan would look so
 * bad that PostgreSQL would plan each page again, 0.3 to 1 ms; a tenth of a page looks good.
 */
function cut(
  query: Sql,
  { limit, offset = 0, most = pageSizeMax }: { limit: number; offset?: number; most?: number },
): Sql {
  const first = limit + offset > most ? query : sql`select * from (${query} limit ${sql.literal(most)}) longest`;
  return sql`${first} limit ${limit} ${offset === 0 ? sql`` : sql`offset ${offset}`}`;
}

/** Separates the conditions that an index delivers in page order from the others. */
function conditionsOn(tenantId: string, filter: DeploymentFilter, tags = noTags) {
  const inOrder = [sql`d.tenant_id = ${tenantId}`, ...conditionsInOrder(tenantId, filter)];
  return { inOrder, others: [...conditionsOf(filter), ...tags.fits] };
}

/**
 * Restricts rows to the workspace where another condition finds them. It is written so that no index is used for it and
 * the planner does not expect it to remove most of the rows.
 */
const isOf = (tenantId: string) => sql`coalesce(d.tenant_id = ${tenantId}, false)`;

const all = (conditions: readonly Sql[]) => sql.join(conditions, " and ");

/** Counts the deployments of a workspace per health, without words that none has. */
export async function countHealth(db: Db, tenantId: string): Promise<{ health: HealthWord; count: number }[]> {
  const { rows } = await db.query<{ health: HealthWord; count: number }>(sql`
    select health, count(*) as count from deployments where tenant_id = ${tenantId} group by health`);
  return rows;
}

/** Deployments that are being deleted do not count: their slot is free at once. */
export async function countFreeDeployments(db: Db, organizationId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>(sql`
    select count(*) as count from deployments d join workspaces w on w.id = d.tenant_id
     where w.organization_id = ${organizationId} and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')
       and d.source_config ->> 'deployment_type' in ('dev_free', 'dev_free_zero')`);
  return rows[0]?.count ?? 0;
}

/** Returns the conditions that an index delivers in the usual page order, or that match only a few rows. */
function conditionsInOrder(tenantId: string, filter: DeploymentFilter): Sql[] {
  const { name, status, health, ids, imageVersion, deploymentType, address, agentId, agentEnvironment } = filter;
  const found: Sql[] = [];
  if (name !== undefined) found.push(sql`d.name = ${name}`);
  if (status !== undefined) found.push(sql`d.status = ${status}`);
  if (health?.length === 1) found.push(sql`d.health = ${health[0]}`);
  if (ids !== undefined) found.push(sql`d.id = any(${ids}::uuid[])`);
  if (status === undefined && ids === undefined && !health?.includes("deleting")) {
    found.push(sql`d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')`);
  }
  if (imageVersion !== undefined) found.push(sql`d.image_version = ${imageVersion}`);
  // External images have no type; responses show prod.
  if (deploymentType !== undefined) {
    found.push(sql`coalesce(d.source_config ->> 'deployment_type', 'prod') = ${deploymentType}`);
  }
  if (address !== undefined) found.push(isAt(tenantId, address));
  if (agentId !== undefined) found.push(isOfAgent(agentId));
  if (agentEnvironment !== undefined) found.push(sql`d.agent_environment = ${agentEnvironment}`);
  return found;
}

/** Returns the conditions that no index delivers in page order. */
function conditionsOf(filter: DeploymentFilter): Sql[] {
  const { nameContains, textContains, isRemote, listenerId, health } = filter;
  const found: Sql[] = [];
  if (nameContains !== undefined) found.push(sql`strpos(lower(d.name), lower(${nameContains})) > 0`);
  if (textContains !== undefined) found.push(hasText(textContains));
  if (listenerId !== undefined) found.push(sql`d.listener_id = ${listenerId}`);
  if (health !== undefined && health.length !== 1) found.push(sql`d.health = any(${[...health]}::text[])`);
  if (isRemote !== undefined) {
    found.push(sql`d.listener_id in (select l.id from listeners l where l.builtin = ${!isRemote})`);
  }
  return found;
}

/** Returns the condition for a part of any text of a deployment, each apart. No index has these texts, so it reads row by row: 50 ms for 12,000. */
const hasText = (part: string): Sql => sql`
  strpos(lower(concat_ws(chr(1), d.name, d.display_name, d.source_config ->> 'repo_url', d.source_revision_config ->> 'image_uri',
    (select concat_ws(chr(1), r.commit_message, r.commit_author) from revisions r where r.id = d.latest_revision_id))), lower(${part})) > 0`;

/**
 * Returns the condition that finds a part of a name by the index of name parts, which has no parts of one or two letters.
 * It uses adjacent groups of three letters and the last group, because overlapping groups add little, and of these the
 * rare ones.
 */
function partsOf(tenantId: string, { nameContains = "" }: DeploymentFilter): Sql[] {
  if ([...nameContains].length < 3) return [];
  const last = sql`length(${nameContains}) - 2`;
  // A subquery, because otherwise it would run again for each day.
  return [
    sql`name_parts(d.tenant_id, d.name) @> (select rare_parts(array(
      select left(${tenantId}::text, 8) || substr(lower(${nameContains}), i, 3)
        from (select generate_series(1, ${last}, 3) union select ${last}) at (i))))`,
  ];
}

/**
 * Finds the few deployments that can have an address: by custom URL, by slug, and by the text where the template of each
 * data plane has the slug. For a data plane whose addresses contain the namespace, all of its deployments are checked.
 */
function isAt(tenantId: string, { slug, customUrl }: { slug: string | null; customUrl: string }): Sql {
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
