import { randomUUID } from "node:crypto";
import { errors } from "../../contract/error.ts";
import { changesBetween } from "../../domain/audit.ts";
import { tagsMax, tagValuesMax } from "../../domain/limits.ts";
import { type Db, isUniqueViolation, type Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { type AuditNote, audited } from "./audit.ts";

export interface TagValueRow {
  id: string;
  name: string;
  created_at: Date;
}

/** A tag with its values. */
export interface TagRow {
  id: string;
  name: string;
  description: string | null;
  created_at: Date;
  values: TagValueRow[];
}

/** The workspace of tags and the actor of a request. */
export interface TagOwner {
  organizationId: string;
  tenantId: string;
  actor: string;
}

/** Returns tags by name. */
export async function listTags(
  db: Db | Trx,
  tenantId: string,
  page: { limit: number; offset: number; id?: string },
): Promise<TagRow[]> {
  const { rows } = await db.query<
    Omit<TagRow, "values"> & { values: { id: string; name: string; created_at: string }[] }
  >(sql`
    select k.id, k.name, k.description, k.created_at,
           coalesce((select jsonb_agg(jsonb_build_object('id', v.id, 'name', v.name, 'created_at', v.created_at) order by v.name)
                       from tag_values v where v.tag_key_id = k.id), '[]') as values
      from tag_keys k where k.tenant_id = ${tenantId} and (${page.id ?? null}::uuid is null or k.id = ${page.id ?? null})
     order by k.name limit ${page.limit} offset ${page.offset}`);
  return rows.map((row) => ({
    ...row,
    values: row.values.map((value) => ({ ...value, created_at: new Date(value.created_at) })),
  }));
}

export async function findTag(db: Db | Trx, tenantId: string, id: string): Promise<TagRow | undefined> {
  return (await listTags(db, tenantId, { id, limit: 1, offset: 0 }))[0];
}

/** Creates a tag. @throws ApiError 409 when a name is taken, 400 when there are too many. */
export async function createTag(
  db: Db,
  owner: TagOwner,
  made: { name: string; description: string | null; values: string[] },
): Promise<TagRow> {
  const { tenantId } = owner;
  return refusingTakenName(made.name, () =>
    db.transaction(async (trx) => {
      const id = randomUUID();
      const { rows } = await trx.query<{
        n: number;
      }>(sql`select count(*) as n from tag_keys where tenant_id = ${tenantId}`);
      if ((rows[0]?.n ?? 0) >= tagsMax) throw errors.tooManyTags(tagsMax, "tags in a workspace");
      const values = [...new Set(made.values)];
      if (values.length > tagValuesMax) throw errors.tooManyTags(tagValuesMax, "values of a tag");
      await trx.query(sql`
        insert into tag_keys (id, tenant_id, name, description) values (${id}, ${tenantId}, ${made.name}, ${made.description})`);
      await trx.query(sql`
        insert into tag_values (id, tag_key_id, name)
        select gen_random_uuid(), ${id}::uuid, name from unnest(${values}::text[]) as name`);
      await write(trx, owner, { id, name: made.name }, { action: "tag.create", details: { values } });
      return (await findTag(trx, tenantId, id)) as TagRow;
    }),
  );
}

/**
 * Changes a tag.
 * @returns undefined when there is no such tag.
 * @throws ApiError 409 when the name is taken.
 */
export async function changeTag(
  db: Db,
  owner: TagOwner,
  id: string,
  wanted: { name?: string; description?: string },
): Promise<TagRow | undefined> {
  return refusingTakenName(wanted.name ?? "", () =>
    db.transaction(async (trx) => {
      const row = await lockTag(trx, owner.tenantId, id);
      if (row === undefined) return undefined;
      const after = { name: wanted.name ?? row.name, description: wanted.description ?? row.description };
      const changes = changesBetween({ name: row.name, description: row.description }, after);
      if (Object.keys(changes).length === 0) return row;
      await trx.query(
        sql`update tag_keys set name = ${after.name}, description = ${after.description} where id = ${id}`,
      );
      await write(trx, owner, row, { action: "tag.patch", changes });
      return { ...row, ...after };
    }),
  );
}

/** Deletes a tag with its values, and removes it from all deployments. @returns false when there is no such tag. */
export async function deleteTag(db: Db, owner: TagOwner, id: string): Promise<boolean> {
  return db.transaction(async (trx) => {
    const row = await lockTag(trx, owner.tenantId, id);
    if (row === undefined) return false;
    await trx.query(sql`delete from tag_keys where id = ${id}`);
    await write(trx, owner, row, { action: "tag.delete", details: { values: row.values.map(({ name }) => name) } });
    return true;
  });
}

/**
 * Adds a value to a tag.
 * @returns undefined when there is no such tag.
 * @throws ApiError 409 when the name is taken, 400 when there are too many.
 */
export async function createTagValue(
  db: Db,
  owner: TagOwner,
  tagId: string,
  name: string,
): Promise<TagValueRow | undefined> {
  return refusingTakenName(name, () =>
    db.transaction(async (trx) => {
      const tag = await lockTag(trx, owner.tenantId, tagId);
      if (tag === undefined) return undefined;
      if (tag.values.length >= tagValuesMax) throw errors.tooManyTags(tagValuesMax, "values of a tag");
      const { rows } = await trx.query<TagValueRow>(sql`
        insert into tag_values (id, tag_key_id, name) values (${randomUUID()}, ${tagId}, ${name})
        returning id, name, created_at`);
      const value = rows[0] as TagValueRow;
      await write(trx, owner, { id: value.id, name }, { action: "tag_value.create", details: { tag: tag.name } });
      return value;
    }),
  );
}

/** Renames a value. @throws ApiError 404 for an unknown tag or value, 409 when the name is taken. */
export async function changeTagValue(
  db: Db,
  owner: TagOwner,
  at: { tagId: string; valueId: string },
  name: string,
): Promise<TagValueRow> {
  return refusingTakenName(name, () =>
    db.transaction(async (trx) => {
      const { tag, value } = await lockTagValue(trx, owner.tenantId, at);
      if (value.name === name) return value;
      await trx.query(sql`update tag_values set name = ${name} where id = ${value.id}`);
      const changes = { name: { before: value.name, after: name } };
      await write(trx, owner, value, { action: "tag_value.patch", changes, details: { tag: tag.name } });
      return { ...value, name };
    }),
  );
}

/** Deletes a value, and removes it from all deployments. @throws ApiError 404 for an unknown tag or value. */
export async function deleteTagValue(db: Db, owner: TagOwner, at: { tagId: string; valueId: string }): Promise<void> {
  await db.transaction(async (trx) => {
    const { tag, value } = await lockTagValue(trx, owner.tenantId, at);
    await trx.query(sql`delete from tag_values where id = ${value.id}`);
    await write(trx, owner, value, { action: "tag_value.delete", details: { tag: tag.name } });
  });
}

/** Returns a tag and locks it, so that its values do not change meanwhile. */
async function lockTag(trx: Trx, tenantId: string, id: string): Promise<TagRow | undefined> {
  await trx.query(sql`select 1 from tag_keys where id = ${id} and tenant_id = ${tenantId} for update`);
  return findTag(trx, tenantId, id);
}

async function lockTagValue(trx: Trx, tenantId: string, at: { tagId: string; valueId: string }) {
  const tag = await lockTag(trx, tenantId, at.tagId);
  if (tag === undefined) throw errors.tagNotFound(at.tagId);
  const value = tag.values.find(({ id }) => id === at.valueId);
  if (value === undefined) throw errors.tagValueNotFound(at.valueId);
  return { tag, value };
}

async function write(
  trx: Trx,
  { organizationId, tenantId: workspaceId, actor }: TagOwner,
  subject: { id: string; name: string; deploymentId?: string },
  note: Omit<AuditNote, "actor">,
): Promise<void> {
  await trx.query(audited({ organizationId, workspaceId, ...subject }, { actor, ...note }));
}

async function refusingTakenName<T>(name: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw isUniqueViolation(error) ? errors.tagNameTaken(name) : error;
  }
}
