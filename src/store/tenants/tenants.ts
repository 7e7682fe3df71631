import { randomUUID } from "node:crypto";
import type { Plan } from "../../contract/administration/organization.ts";
import { errors } from "../../contract/error.ts";
import { changesBetween } from "../../domain/audit.ts";
import { type Db, isForeignKeyViolation, isUniqueViolation, type Trx } from "../engine/database.ts";
import { isUuid } from "../engine/is-uuid.ts";
import { sql } from "../engine/sql.ts";
import { listTokensIn, type TokenRow } from "../oauth/oauth-tokens.ts";
import { audited } from "./audit.ts";
import { type Reach, within } from "./scope.ts";

export interface OrganizationRow {
  id: string;
  name: string;
  plan: Plan;
  created_at: Date;
}

/** A tenant, which owns deployments. Users call it a workspace. */
export interface WorkspaceRow {
  id: string;
  organization_id: string;
  name: string;
  /** false: the operator has disabled deployments here. */
  deployments_enabled: boolean;
  created_at: Date;
  plan: Plan;
}

const system = "system";
const everything: Reach = { organizationId: null, workspaceId: null };

export async function createOrganization(
  db: Db | Trx,
  made: { name: string; plan: Plan; actor?: string },
): Promise<string> {
  const id = randomUUID();
  const { name, plan, actor = system } = made;
  await db.query(sql`
    with organization as (insert into organizations (id, name, plan) values (${id}, ${name}, ${plan}))
    ${audited(ofOrganization({ id, name }), { actor, action: "organization.create", details: { plan } })}`);
  return id;
}

/** Creates a workspace. @throws ApiError 409 when the name is taken, 404 when there is no such organization. */
export async function createWorkspace(
  db: Db | Trx,
  made: { organizationId: string; name: string; actor?: string },
): Promise<string> {
  const id = randomUUID();
  const { organizationId, name, actor = system } = made;
  try {
    await db.query(sql`
      with workspace as (
        insert into workspaces (id, organization_id, name) values (${id}, ${organizationId}, ${name})
      ) ${audited({ organizationId, workspaceId: id, id, name }, { actor, action: "workspace.create" })}`);
  } catch (error) {
    if (isForeignKeyViolation(error)) throw errors.organizationNotFound(organizationId);
    throw refusalOfName(error, name);
  }
  return id;
}

export async function findOrganization(db: Db | Trx, reach: Reach, id: string): Promise<OrganizationRow | undefined> {
  const { rows } = await db.query<OrganizationRow>(sql`
    select o.id, o.name, o.plan, o.created_at from organizations o
     where o.id = ${id} and (${reach.organizationId}::uuid is null or o.id = ${reach.organizationId})`);
  return rows[0];
}

/** Returns organizations by name. */
export async function listOrganizations(
  db: Db,
  reach: Reach,
  page: { limit: number; offset: number },
): Promise<OrganizationRow[]> {
  const { rows } = await db.query<OrganizationRow>(sql`
    select o.id, o.name, o.plan, o.created_at from organizations o
     where ${reach.organizationId}::uuid is null or o.id = ${reach.organizationId}
     order by o.name, o.id limit ${page.limit} offset ${page.offset}`);
  return rows;
}

/** Returns a workspace. @param id must be a uuid: the caller has checked the client's input. */
export async function findWorkspace(
  db: Db | Trx,
  id: string,
  reach: Reach = everything,
): Promise<WorkspaceRow | undefined> {
  const { rows } = await db.query<WorkspaceRow>(sql`
    select w.id, w.organization_id, w.name, w.deployments_enabled, w.created_at, o.plan
      from workspaces w join organizations o on o.id = w.organization_id
     where w.id = ${id} and ${within(reach, columns)}`);
  return rows[0];
}

export async function hasOtherWorkspaces(db: Db, id: string): Promise<boolean> {
  const { rows } = await db.query(sql`select 1 from workspaces where id <> ${id} limit 1`);
  return rows.length > 0;
}

/** Returns workspaces by name. */
export async function listWorkspaces(
  db: Db,
  reach: Reach,
  filter: { organizationId: string | null },
  page: { limit: number; offset: number },
): Promise<WorkspaceRow[]> {
  const { rows } = await db.query<WorkspaceRow>(sql`
    select w.id, w.organization_id, w.name, w.deployments_enabled, w.created_at, o.plan
      from workspaces w join organizations o on o.id = w.organization_id
     where ${within(reach, columns)} and ${within({ ...filter, workspaceId: null }, columns)}
     order by w.name, w.id limit ${page.limit} offset ${page.offset}`);
  return rows;
}

const columns = { organization: "w.organization_id", workspace: "w.id" };

/** Changes an organization. @returns undefined when there is no such organization. */
export async function changeOrganization(
  db: Db,
  reach: Reach,
  id: string,
  wanted: { name?: string; plan?: Plan; actor: string },
): Promise<OrganizationRow | undefined> {
  return db.transaction(async (trx) => {
    await trx.query(sql`select 1 from organizations where id = ${id} for update`);
    const row = await findOrganization(trx, reach, id);
    if (row === undefined) return undefined;
    const after = { name: wanted.name ?? row.name, plan: wanted.plan ?? row.plan };
    const changes = changesBetween({ name: row.name, plan: row.plan }, after);
    if (Object.keys(changes).length === 0) return row;
    await trx.query(sql`
      with organization as (update organizations set name = ${after.name}, plan = ${after.plan} where id = ${id})
      ${audited(ofOrganization(row), { actor: wanted.actor, action: "organization.patch", changes })}`);
    return { ...row, ...after };
  });
}

/**
 * Changes a workspace.
 * @returns undefined when there is no such workspace.
 * @throws ApiError 409 when the name is taken.
 */
export async function changeWorkspace(
  db: Db,
  reach: Reach,
  id: string,
  wanted: { name?: string; deploymentsEnabled?: boolean; actor: string },
): Promise<WorkspaceRow | undefined> {
  const change = async (trx: Trx) => {
    await trx.query(sql`select 1 from workspaces where id = ${id} for no key update`);
    const row = await findWorkspace(trx, id, reach);
    if (row === undefined) return undefined;
    const before = { name: row.name, deployments_enabled: row.deployments_enabled };
    const after = {
      name: wanted.name ?? row.name,
      deployments_enabled: wanted.deploymentsEnabled ?? row.deployments_enabled,
    };
    const changes = changesBetween(before, after);
    if (Object.keys(changes).length === 0) return row;
    await trx.query(sql`
      with workspace as (
        update workspaces set name = ${after.name}, deployments_enabled = ${after.deployments_enabled} where id = ${id}
      ) ${audited(ofWorkspace(row), { actor: wanted.actor, action: "workspace.patch", changes })}`);
    return { ...row, ...after };
  };
  return db.transaction(change).catch((error: unknown) => {
    throw refusalOfName(error, wanted.name ?? "");
  });
}

/**
 * Deletes an organization with its keys and members.
 * @returns false when there is no such organization.
 * @throws ApiError 409 while it has workspaces or operators' keys.
 */
export async function deleteOrganization(db: Db, reach: Reach, id: string, actor: string): Promise<boolean> {
  const act = async (trx: Trx) => {
    await trx.query(sql`select 1 from organizations where id = ${id} for update`);
    const row = await findOrganization(trx, reach, id);
    if (row === undefined) return false;
    const has = await countOf(trx, {
      workspaces: sql`select 1 from workspaces where organization_id = ${id}`,
      "keys of operators": sql`select 1 from api_keys where organization_id = ${id} and is_operator and revoked_at is null`,
    });
    if (has !== null) throw errors.organizationInUse(`it has ${has}.`);
    await trx.query(sql`delete from api_keys where organization_id = ${id}`);
    await trx.query(sql`delete from members where organization_id = ${id}`);
    await trx.query(sql`
      with organization as (delete from organizations where id = ${id})
      ${audited(ofOrganization(row), { actor, action: "organization.delete" })}`);
    return true;
  };
  return db.transaction(act).catch((error: unknown) => {
    throw isForeignKeyViolation(error) ? errors.organizationInUse(stillThere(error)) : error;
  });
}

/**
 * Deletes a workspace with its keys, members, tags and quotas. A deployment that is created meanwhile fails because its
 * workspace is gone.
 * @returns the deleted OAuth tokens, which are still valid at their providers; undefined: there is no such workspace.
 * @throws ApiError 409 while it has deployments or listeners.
 */
export async function deleteWorkspace(
  db: Db,
  reach: Reach,
  id: string,
  actor: string,
): Promise<TokenRow[] | undefined> {
  const act = async (trx: Trx) => {
    await trx.query(sql`select 1 from workspaces where id = ${id} for update`);
    const row = await findWorkspace(trx, id, reach);
    if (row === undefined) return undefined;
    const has = await countOf(trx, {
      deployments: sql`select 1 from deployments where tenant_id = ${id}`,
      listeners: sql`select 1 from listeners where tenant_id = ${id}`,
    });
    if (has !== null) throw errors.workspaceInUse(`it has ${has}. Delete them first.`);
    const tokens = await listTokensIn(trx, id);
    // An operator's key does not belong to the workspace; it was only its default.
    await trx.query(sql`update api_keys set workspace_id = null where workspace_id = ${id} and is_operator`);
    await trx.query(sql`delete from api_keys where workspace_id = ${id}`);
    await trx.query(sql`delete from artifacts where tenant_id = ${id}`);
    await trx.query(sql`
      with workspace as (delete from workspaces where id = ${id})
      ${audited(ofWorkspace(row), { actor, action: "workspace.delete" })}`);
    return tokens;
  };
  return db.transaction(act).catch((error: unknown) => {
    throw isForeignKeyViolation(error) ? errors.workspaceInUse(stillThere(error)) : error;
  });
}

/** Names the table whose rows still refer to the object: added since the check, or of a kind that the check does not cover. */
function stillThere(error: unknown): string {
  const { table = "something" } = error as { table?: string };
  return `${table.replaceAll("_", " ")} still belong to it.`;
}

/** Returns a text such as "2 deployments and 1 listener"; null: nothing found. */
async function countOf(trx: Trx, questions: Record<string, ReturnType<typeof sql>>): Promise<string | null> {
  const found: string[] = [];
  for (const [what, rowsOf] of Object.entries(questions)) {
    const { rows } = await trx.query<{ n: number }>(sql`select count(*) as n from (${rowsOf}) r`);
    const count = rows[0]?.n ?? 0;
    if (count > 0) found.push(`${count} ${count === 1 ? what.replace(/s\b/, "") : what}`);
  }
  return found.length === 0 ? null : found.join(" and ");
}

const ofOrganization = ({ id, name }: { id: string; name: string }) => ({
  organizationId: id,
  workspaceId: null,
  id,
  name,
});

const ofWorkspace = ({ id, organization_id: organizationId, name }: WorkspaceRow) => ({
  organizationId,
  workspaceId: id,
  id,
  name,
});

function refusalOfName(error: unknown, name: string): unknown {
  return isUniqueViolation(error, "workspaces_name") ? errors.workspaceNameTaken(name) : error;
}

/** Returns the workspace of a deployment; undefined: there is no such deployment. */
export async function findTenantOf(db: Db, deploymentId: string): Promise<string | undefined> {
  const { rows } = await db.query<{ tenant_id: string }>(sql`
    select tenant_id from deployments where id = ${deploymentId}`);
  return rows[0]?.tenant_id;
}

/** Returns which of these deployments exist. */
export async function findKnownDeployments(db: Db, ids: string[]): Promise<Set<string>> {
  const uuids = ids.filter(isUuid);
  const { rows } = await db.query<{ id: string }>(sql`
    select id from deployments where id = any(${uuids}::uuid[])`);
  return new Set(rows.map(({ id }) => id));
}

/** Holds off every other server that starts, until the current unit ends: the second one finds what the first created. */
export async function lockOrganizations(db: Db): Promise<void> {
  await db.query(sql`lock table organizations in share row exclusive mode`);
}

/** Returns the oldest workspace, or an organization without one (null), or undefined when there is no organization. */
export async function findOldestWorkspace(
  db: Db | Trx,
): Promise<{ organizationId: string; workspaceId: string | null } | undefined> {
  const { rows } = await db.query<{ organizationId: string; workspaceId: string | null }>(sql`
    select o.id as "organizationId", w.id as "workspaceId"
      from organizations o left join workspaces w on w.organization_id = o.id
     order by w.created_at nulls last, w.id, o.created_at, o.id limit 1`);
  return rows[0];
}
