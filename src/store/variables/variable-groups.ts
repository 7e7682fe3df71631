import { randomUUID } from "node:crypto";
import { errors } from "../../contract/error.ts";
import type { GroupVariable } from "../../contract/variables/variable-group.ts";
import { type SecretChanges, secretChangesBetween } from "../../domain/audit.ts";
import { variableGroupsMax, variableGroupsOfDeploymentMax } from "../../domain/limits.ts";
import { checkSecrets } from "../../domain/secret-names.ts";
import { type Db, isForeignKeyViolation, isUniqueViolation, type Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import type { Sealed, SealedColumn, Sealer } from "../secrets/seal.ts";
import { type AuditNote, audited } from "../tenants/audit.ts";
import { variableGroupsTable } from "./tables.ts";

export const sealedVariableGroups: SealedColumn = {
  ...{ table: "variable_groups", id: "id", keyColumn: "data_key_id", column: "sealed" },
  boundBy: ["id", "tenant_id"],
  boundTo: (row) => boundTo(row as unknown as GroupKey),
};

/** A variable of a group: secrets are never shown again. */
export interface StoredVariable {
  value: string;
  is_secret: boolean;
}

type StoredVariables = Record<string, StoredVariable>;

const groupFields = pick(
  variableGroupsTable,
  "id",
  "tenant_id",
  "name",
  "version",
  "sealed",
  "created_at",
  "updated_at",
);
const columns = sql`${selectList(groupFields, "g")}, g.data_key_id as "keyId"`;

/** Larger groups are read one by one, because a page of them is 100 MiB. */
const listedBytesMax = sql.literal(65_536);
const listedFields = pick(variableGroupsTable, "id", "tenant_id", "name", "version", "created_at", "updated_at");
const listedColumns = sql`${selectList(listedFields, "g")}, g.data_key_id as "keyId",
  case when octet_length(g.sealed) <= ${listedBytesMax} then g.sealed end as sealed,
  case when octet_length(g.sealed) > ${listedBytesMax} then octet_length(g.sealed) end as large_bytes`;

interface StoredGroup extends RowOf<typeof groupFields>, Sealed {}

/** A deployment that uses a group. */
export interface GroupUser {
  id: string;
  name: string;
  /** Whether its newest revision has this version of the group. */
  is_current: boolean;
}

export interface GroupRow extends Omit<StoredGroup, "sealed" | "keyId"> {
  variables: StoredVariables;
  deployments: GroupUser[];
}

interface Owner {
  organizationId: string;
  tenantId: string;
  actor: string;
}

const usersOfGroup = sql`
  coalesce((select jsonb_agg(jsonb_build_object('id', d.id, 'name', d.name, 'is_current', exists (
              select from revision_variables v where v.revision_id = d.latest_revision_id
                 and v.groups @> jsonb_build_array(jsonb_build_object('id', g.id, 'version', g.version)))) order by d.name)
              from deployment_variable_groups u join deployments d on d.id = u.deployment_id
             where u.group_id = g.id), '[]') as deployments`;

/** A row of a page of groups. */
export interface ListedGroup extends Omit<StoredGroup, "sealed"> {
  /** null: the group is large, and the row lacks its variables. */
  sealed: Buffer | null;
  /** Size of the sealed variables that the row lacks. */
  large_bytes: number | null;
  deployments: GroupUser[];
}

/** Returns the groups of a workspace by name. `openListedGroup` opens their variables. */
export async function listVariableGroups(
  db: Db,
  tenantId: string,
  page: { limit: number; offset: number },
): Promise<ListedGroup[]> {
  const { rows } = await db.query<ListedGroup & Record<string, unknown>>(sql`
    select ${listedColumns}, ${usersOfGroup} from variable_groups g
     where g.tenant_id = ${tenantId} order by g.name limit ${page.limit} offset ${page.offset}`);
  return rows;
}

export function openListedGroup(sealer: Sealer, { large_bytes: _, sealed, ...row }: ListedGroup): GroupRow {
  if (sealed === null) throw new Error("a large group is read on its own");
  return openRow(sealer, { ...row, sealed });
}

/** Returns a group; undefined for an unknown one and equally for another workspace's. */
export async function findVariableGroup(
  db: Db | Trx,
  sealer: Sealer,
  tenantId: string,
  id: string,
): Promise<GroupRow | undefined> {
  const { rows } = await db.query<StoredGroup & { deployments: GroupUser[] }>(sql`
    select ${columns}, ${usersOfGroup} from variable_groups g where g.tenant_id = ${tenantId} and g.id = ${id}`);
  return rows[0] && openRow(sealer, rows[0]);
}

/** Returns the groups of a deployment, in the order in which they apply. */
export async function listGroupsOfDeployment(db: Db | Trx, sealer: Sealer, deploymentId: string): Promise<GroupRow[]> {
  const { rows } = await db.query<StoredGroup & { deployments: GroupUser[] }>(sql`
    select ${columns}, ${usersOfGroup} from deployment_variable_groups o join variable_groups g on g.id = o.group_id
     where o.deployment_id = ${deploymentId} order by o.position`);
  return rows.map((row) => openRow(sealer, row));
}

/** Returns a group. @throws ApiError 404 for an unknown one and equally for another workspace's. */
export async function readVariableGroup(db: Db | Trx, sealer: Sealer, tenantId: string, id: string): Promise<GroupRow> {
  const row = await findVariableGroup(db, sealer, tenantId, id);
  if (row === undefined) throw errors.variableGroupNotFound(id);
  return row;
}

/** Creates a group. @throws ApiError 409 when the name is taken; 400 for invalid variables and for too many groups. */
export async function createVariableGroup(
  db: Db,
  sealer: Sealer,
  owner: Owner,
  made: { name: string; variables: readonly GroupVariable[] },
): Promise<GroupRow> {
  const id = randomUUID();
  const { tenantId } = owner;
  const variables = changedVariables({}, { set: made.variables, remove: [] });
  const { keyId, sealed } = seal(sealer, { id, tenant_id: tenantId }, variables);
  return refusingTakenName(made.name, () =>
    db.transaction(async (trx) => {
      const { rows } = await trx.query<{ count: number }>(sql`
        select count(*) as count from variable_groups where tenant_id = ${tenantId}`);
      if ((rows[0]?.count ?? 0) >= variableGroupsMax) {
        throw errors.tooManyVariableGroups(variableGroupsMax, "groups in a workspace");
      }
      await trx.query(sql`
        insert into variable_groups (id, tenant_id, name, data_key_id, sealed)
        values (${id}, ${tenantId}, ${made.name}, ${keyId}, ${sealed})`);
      const secrets = secretChangesBetween({}, valuesOf(variables));
      await note(trx, owner, { id, name: made.name }, { action: "variable_group.create", secrets });
      return readVariableGroup(trx, sealer, tenantId, id);
    }),
  );
}

/**
 * Changes a group; absent fields are unchanged. Its version grows when a variable changes. Writes nothing if nothing changes.
 * @throws ApiError 404; 409 when the name is taken; 400 for invalid variables.
 */
export async function changeVariableGroup(
  db: Db,
  sealer: Sealer,
  owner: Owner,
  id: string,
  wanted: { name?: string; set?: readonly GroupVariable[]; remove?: readonly string[] },
): Promise<GroupRow> {
  return refusingTakenName(wanted.name ?? "", () =>
    db.transaction(async (trx) => {
      const { rowCount } = await lockGroups(trx, owner.tenantId, [id]);
      if (rowCount === 0) throw errors.variableGroupNotFound(id);
      const before = await readVariableGroup(trx, sealer, owner.tenantId, id);
      const name = wanted.name ?? before.name;
      const variables = changedVariables(before.variables, { set: wanted.set ?? [], remove: wanted.remove ?? [] });
      const secrets = secretChangesBetween(flat(before.variables), flat(variables));
      const isChanged = hasChanges(secrets);
      if (!isChanged && name === before.name) return before;
      const isNewValue = hasChanges(secretChangesBetween(valuesOf(before.variables), valuesOf(variables)));
      const { keyId, sealed } = seal(sealer, before, variables);
      await trx.query(sql`
        update variable_groups set name = ${name}, version = version + ${isNewValue ? 1 : 0}, data_key_id = ${keyId},
               sealed = ${sealed}, updated_at = now()
         where id = ${id}`);
      const changes = name === before.name ? {} : { name: { before: before.name, after: name } };
      const audit = { action: "variable_group.patch", changes, secrets: isChanged ? secrets : null };
      await note(trx, owner, { id, name }, audit);
      return readVariableGroup(trx, sealer, owner.tenantId, id);
    }),
  );
}

/** Deletes a group. @throws ApiError 404; 409 while a deployment uses it. */
export async function deleteVariableGroup(db: Db, sealer: Sealer, owner: Owner, id: string): Promise<void> {
  try {
    await db.transaction(async (trx) => {
      const { name, variables, deployments } = await readVariableGroup(trx, sealer, owner.tenantId, id);
      if (deployments.length > 0)
        throw errors.variableGroupInUse(
          name,
          deployments.map((one) => one.name),
        );
      await trx.query(sql`delete from variable_groups where id = ${id}`);
      const secrets = secretChangesBetween(valuesOf(variables), {});
      await note(trx, owner, { id, name }, { action: "variable_group.delete", secrets });
    });
  } catch (error) {
    // A deployment has begun to use it meanwhile.
    if (!isForeignKeyViolation(error)) throw error;
    const { name, deployments } = await readVariableGroup(db, sealer, owner.tenantId, id);
    throw errors.variableGroupInUse(
      name,
      deployments.map((one) => one.name),
    );
  }
}

/**
 * Sets the groups of a deployment, which the caller's transaction has locked.
 * @returns whether the list changed.
 * @throws ApiError 404 for a group of another workspace; 400 for too many.
 */
export async function setGroupsOfDeployment(
  trx: Trx,
  owner: Owner,
  deployment: { id: string; name: string },
  groupIds: readonly string[],
): Promise<boolean> {
  const ids = [...new Set(groupIds)];
  if (ids.length > variableGroupsOfDeploymentMax) {
    throw errors.tooManyVariableGroups(variableGroupsOfDeploymentMax, "groups of a deployment");
  }
  const { rows: known } = await lockGroups(trx, owner.tenantId, ids);
  const unknown = ids.find((id) => !known.some((row) => row.id === id));
  if (unknown !== undefined) throw errors.variableGroupNotFound(unknown);
  const { rows: before } = await trx.query<{ id: string; name: string }>(sql`
    select g.id, g.name from deployment_variable_groups u join variable_groups g on g.id = u.group_id
     where u.deployment_id = ${deployment.id} order by u.position`);
  if (before.map(({ id }) => id).join() === ids.join()) return false;
  await trx.query(sql`delete from deployment_variable_groups where deployment_id = ${deployment.id}`);
  await trx.query(sql`
    insert into deployment_variable_groups (deployment_id, group_id, position)
    select ${deployment.id}, id, position from unnest(${ids}::uuid[]) with ordinality as w (id, position)`);
  const names = ids.map((id) => known.find((row) => row.id === id)?.name);
  const changes = { variable_groups: { before: before.map(({ name }) => name), after: names } };
  await note(
    trx,
    owner,
    { ...deployment, deploymentId: deployment.id },
    { action: "deployment.variable_groups", changes },
  );
  return true;
}

/** Locked in order, so that two requests that name the same groups wait for each other instead of deadlocking. */
async function lockGroups(trx: Trx, tenantId: string, ids: string[]) {
  const { rows } = await trx.query<{ id: string; name: string }>(sql`
    select id, name from variable_groups where id = any(${ids}::uuid[]) and tenant_id = ${tenantId} order by id for update`);
  return { rows, rowCount: rows.length };
}

/** @throws ApiError 400 `invalidSecret`, `secretNameReserved` */
function changedVariables(
  before: StoredVariables,
  { set, remove }: { set: readonly GroupVariable[]; remove: readonly string[] },
): StoredVariables {
  // The rules of a source that is built: a group may serve deployments of every source.
  checkSecrets(set, "github");
  const removed = new Set(remove);
  const after = new Map(Object.entries(before).filter(([name]) => !removed.has(name)));
  for (const { name, value, is_secret } of set) {
    after.set(name, { value, is_secret: is_secret ?? before[name]?.is_secret ?? true });
  }
  const variables = Object.fromEntries([...after].sort(([a], [b]) => (a < b ? -1 : 1)));
  checkSecrets(
    Object.entries(variables).map(([name, { value }]) => ({ name, value })),
    "github",
  );
  return variables;
}

/** Returns the values by name. */
export const valuesOf = (variables: StoredVariables): Record<string, string> =>
  Object.fromEntries(Object.entries(variables).map(([name, { value }]) => [name, value]));

/** Returns a text per variable that changes with its value and with its kind. */
const flat = (variables: StoredVariables): Record<string, string> =>
  Object.fromEntries(Object.entries(variables).map(([name, one]) => [name, `${one.is_secret}:${one.value}`]));

const hasChanges = ({ added, removed, changed }: SecretChanges) => added.length + removed.length + changed.length > 0;

interface GroupKey {
  id: string;
  tenant_id: string;
}

const seal = (sealer: Sealer, group: GroupKey, variables: StoredVariables) =>
  sealer.seal(Buffer.from(JSON.stringify(variables)), boundTo(group));

function openRow(sealer: Sealer, { sealed, keyId, ...row }: StoredGroup & { deployments: GroupUser[] }): GroupRow {
  return { ...row, variables: JSON.parse(sealer.open({ keyId, sealed }, boundTo(row)).toString()) };
}

const boundTo = ({ id, tenant_id }: GroupKey) => `variable-group/${tenant_id}/${id}`;

async function note(
  trx: Trx,
  { organizationId, tenantId: workspaceId, actor }: Owner,
  subject: { id: string; name: string; deploymentId?: string },
  made: Omit<AuditNote, "actor">,
): Promise<void> {
  await trx.query(audited({ organizationId, workspaceId, ...subject }, { actor, ...made }));
}

async function refusingTakenName<T>(name: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw isUniqueViolation(error) ? errors.variableGroupTaken(name) : error;
  }
}
