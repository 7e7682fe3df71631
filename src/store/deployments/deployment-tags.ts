import { errors } from "../../contract/error.ts";
import { changesBetween } from "../../domain/audit.ts";
import { tagsOfDeploymentMax } from "../../domain/limits.ts";
import type { Db, Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { audited } from "../tenants/audit.ts";
import type { TagOwner } from "../tenants/tags.ts";

export interface DeploymentTagRow {
  tag_id: string;
  tag_value_id: string;
  name: string;
  value: string;
}

/** Returns the tags by name and value. The caller has checked that the deployment belongs to this workspace. */
export async function listTagsOf(db: Db | Trx, deploymentId: string): Promise<DeploymentTagRow[]> {
  const { rows } = await db.query<DeploymentTagRow>(sql`
    select k.id as tag_id, v.id as tag_value_id, k.name, v.name as value
      from deployment_tags t join tag_values v on v.id = t.tag_value_id join tag_keys k on k.id = v.tag_key_id
     where t.deployment_id = ${deploymentId} order by k.name, v.name`);
  return rows;
}

/** Returns the tags of each of the tenant's deployments among these, by name and value. A deployment without tags has no row. */
export async function listTagsOfMany(
  db: Db | Trx,
  tenantId: string,
  deploymentIds: readonly string[],
): Promise<(DeploymentTagRow & { deployment_id: string })[]> {
  const { rows } = await db.query<DeploymentTagRow & { deployment_id: string }>(sql`
    select t.deployment_id, k.id as tag_id, v.id as tag_value_id, k.name, v.name as value
      from deployment_tags t join tag_values v on v.id = t.tag_value_id join tag_keys k on k.id = v.tag_key_id
     where t.deployment_id = any(${[...deploymentIds]}::uuid[]) and k.tenant_id = ${tenantId} order by k.name, v.name`);
  return rows;
}

/**
 * Replaces the tags of a deployment.
 * @throws ApiError 404 for an unknown deployment or value, 400 for too many tags.
 */
export async function putTagsOf(
  db: Db,
  owner: TagOwner,
  deploymentId: string,
  wanted: readonly string[],
): Promise<DeploymentTagRow[]> {
  const ids = [...new Set(wanted)];
  if (ids.length > tagsOfDeploymentMax) throw errors.tooManyTags(tagsOfDeploymentMax, "tags on a deployment");
  return db.transaction(async (trx) => {
    const { rows } = await trx.query<{ name: string }>(sql`
      select name from deployments where id = ${deploymentId} and tenant_id = ${owner.tenantId} for no key update`);
    const deployment = rows[0];
    if (deployment === undefined) throw errors.deploymentNotFound(deploymentId);
    const known = await lockValues(trx, owner.tenantId, ids);
    const unknown = ids.find((id) => !known.has(id));
    if (unknown !== undefined) throw errors.tagValueNotFound(unknown);
    const before = await listTagsOf(trx, deploymentId);
    await trx.query(sql`
      with dropped as (
        delete from deployment_tags where deployment_id = ${deploymentId} and tag_value_id <> all(${ids}::uuid[]))
      insert into deployment_tags (deployment_id, tag_value_id)
      select ${deploymentId}::uuid, id from unnest(${ids}::uuid[]) as id on conflict do nothing`);
    const after = await listTagsOf(trx, deploymentId);
    const changes = changesBetween({ tags: before.map(textOf) }, { tags: after.map(textOf) });
    if (Object.keys(changes).length > 0) {
      const { organizationId, tenantId: workspaceId } = owner;
      const subject = { organizationId, workspaceId, deploymentId, id: deploymentId, name: deployment.name };
      await trx.query(audited(subject, { actor: owner.actor, action: "deployment.tag", changes }));
    }
    return after;
  });
}

const textOf = ({ name, value }: DeploymentTagRow) => `${name}=${value}`;

/** Returns which of the ids are values of this workspace, and locks them until the transaction ends. */
async function lockValues(trx: Trx, tenantId: string, ids: string[]): Promise<Set<string>> {
  const { rows } = await trx.query<{ id: string }>(sql`
    select v.id from tag_values v join tag_keys k on k.id = v.tag_key_id
     where v.id = any(${ids}::uuid[]) and k.tenant_id = ${tenantId} order by v.id for key share of v`);
  return new Set(rows.map(({ id }) => id));
}

/** Equivalent conditions on a deployment `d`, written for checking a given row or for finding rows. */
export interface TagConditions {
  /** For a given row: a lookup by its id. */
  fits: Sql[];
  /** For finding rows: starts with the ids that have the rarest tag, written so that no plan can start elsewhere. */
  found: Sql[];
  /** The rarest tag, if the filter names one value of it: an index has its deployments in list order. */
  rarest?: { valueId: string; others: Sql[] } | undefined;
}

/** Deployments of each of several tags are counted up to this number: 0.1 ms. */
const countedMax = 1_000;

/** The second limit if all tags reach the first one: about 2 ms each, which is what a page costs with the wrong tag first. */
const countedLongMax = 20_000;

/**
 * Returns the conditions for the tag values of a filter: values of one tag are alternatives, and a deployment needs one
 * value of each tag. @returns undefined when a value does not belong to this workspace, so that nothing matches.
 */
export async function taggedWith(
  db: Db,
  tenantId: string,
  valueIds: readonly string[],
): Promise<TagConditions | undefined> {
  const ids = [...new Set(valueIds)];
  const counted = (max: number) => sql`(select count(*) from (
    select from deployment_tags t where t.tag_value_id = any(wanted.ids) limit ${sql.literal(max)}) counted)`;
  const { rows } = await db.query<{ ids: string[] }>(sql`
    with wanted as materialized (
      select array_agg(v.id) as ids from tag_values v join tag_keys k on k.id = v.tag_key_id
       where v.id = any((select ${ids}::uuid[])::uuid[]) and k.tenant_id = ${tenantId} group by k.id
    ), sized as materialized (
      select ids, case when (select count(*) from wanted) > 1 then ${counted(countedMax)} end as size from wanted
    )
    select ids::text[] from sized wanted
     order by size, case when (select min(size) from sized) = ${sql.literal(countedMax)} then ${counted(countedLongMax)} end`);
  if (rows.flatMap((row) => row.ids).length < ids.length) return undefined;
  const having = (row: { ids: string[] }) => sql`t.tag_value_id = any(${row.ids}::uuid[])`;
  const fits = rows.map(
    (row) => sql`(select true from deployment_tags t where t.deployment_id = d.id and ${having(row)} limit 1)`,
  );
  const others = fits.slice(1);
  const found = rows
    .slice(0, 1)
    .map((row) => sql`d.id = any(array(select t.deployment_id from deployment_tags t where ${having(row)}))`);
  const [valueId, alternative] = rows[0]?.ids ?? [];
  const rarest = valueId === undefined || alternative !== undefined ? undefined : { valueId, others };
  return { fits, found: [...found, ...others], rarest };
}
