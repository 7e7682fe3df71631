import { checkSecrets } from "../../domain/secret-names.ts";
import type { DeploymentRow } from "../deployments/deployments.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import type { Sealer } from "../secrets/seal.ts";
import { type SealedSet, sealSecrets } from "../secrets/secrets.ts";
import type { PinnedGroup } from "./tables.ts";
import {
  type GroupRow,
  listGroupsOfDeployment,
  readVariableGroup,
  setGroupsOfDeployment,
  valuesOf,
} from "./variable-groups.ts";

/** The variables of a revision. They never change, so that a rollback to it restores them. */
export interface RevisionVariables {
  /** Everything that it runs with. null: nothing. */
  setId: string | null;
  /** The variables of the deployment alone. */
  ownSetId: string | null;
  /** null: the deployment used no groups, and both sets are the same. */
  groups: PinnedGroup[] | null;
}

/** The variables of a deployment alone. */
export interface OwnVariables {
  setId: string | null;
  values: () => Record<string, string>;
}

type Target = Pick<DeploymentRow, "id" | "tenant_id" | "secret_references" | "source">;

/** Returns the variables of the groups of a deployment with its own, which win; null: it uses no groups. */
export async function resolveVariables(
  db: Db | Trx,
  sealer: Sealer,
  deployment: Target,
  own: Record<string, string>,
): Promise<{ values: Record<string, string>; groups: PinnedGroup[] } | null> {
  return merge(await listGroupsOfDeployment(db, sealer, deployment.id), deployment, own);
}

function merge(
  groups: readonly GroupRow[],
  deployment: Pick<Target, "secret_references">,
  own: Record<string, string>,
): { values: Record<string, string>; groups: PinnedGroup[] } | null {
  if (groups.length === 0) return null;
  const merged = Object.assign({}, ...groups.map(({ variables }) => valuesOf(variables)), own);
  // A reference to a Kubernetes Secret is a variable of the deployment itself.
  for (const { name } of deployment.secret_references ?? []) delete merged[name];
  return { values: merged, groups: groups.map(({ id, name, version }) => ({ id, name, version })) };
}

/**
 * Writes what a new revision of a deployment runs with: its own variables and those of its groups as they are now.
 * @throws ApiError 400 `invalidSecret` when they are too large together.
 */
export async function pinVariables(
  trx: Trx,
  sealer: Sealer,
  deployment: Target,
  own: OwnVariables,
): Promise<RevisionVariables> {
  const { rows } = await trx.query(sql`
    select from deployment_variable_groups where deployment_id = ${deployment.id} limit 1`);
  if (rows.length === 0) return { setId: own.setId, ownSetId: own.setId, groups: null };
  const resolved = await resolveVariables(trx, sealer, deployment, own.values());
  if (resolved === null) return { setId: own.setId, ownSetId: own.setId, groups: null };
  const variables = Object.entries(resolved.values).map(([name, value]) => ({ name, value }));
  const set = sealSecrets(sealer, checkSecrets(variables, deployment.source), deployment);
  await insertSet(trx, deployment, set);
  return { setId: set.id, ownSetId: own.setId, groups: resolved.groups };
}

/** Records what a revision got from groups, once its row is written. */
export async function recordVariables(trx: Trx, revisionId: string, pinned: RevisionVariables): Promise<void> {
  if (pinned.groups === null) return;
  await trx.query(sql`
    insert into revision_variables (revision_id, own_secret_set_id, groups)
    values (${revisionId}, ${pinned.ownSetId}, ${JSON.stringify(pinned.groups)})`);
}

/** Returns the variables of a revision. */
export async function readRevisionVariables(
  db: Db | Trx,
  { id, secret_set_id: setId }: { id: string; secret_set_id: string | null },
): Promise<RevisionVariables> {
  const { rows } = await db.query<{ own_secret_set_id: string | null; groups: PinnedGroup[] }>(sql`
    select own_secret_set_id, groups from revision_variables where revision_id = ${id}`);
  const [pinned] = rows;
  if (pinned === undefined) return { setId, ownSetId: setId, groups: null };
  return { setId, ownSetId: pinned.own_secret_set_id, groups: pinned.groups };
}

/** What the first revision of a preview gets from the groups of its parent. */
interface SharedVariables {
  set: SealedSet;
  groups: PinnedGroup[];
}

/** Returns the variables that a preview gets in addition to its parent's own; null: the parent uses no groups. */
export async function sharedVariables(
  db: Db,
  sealer: Sealer,
  parent: Target,
  preview: { values: Record<string, string>; owner: Pick<DeploymentRow, "id" | "tenant_id"> },
): Promise<SharedVariables | null> {
  const resolved = await resolveVariables(db, sealer, parent, preview.values);
  return resolved && { set: sealSecrets(sealer, resolved.values, preview.owner), groups: resolved.groups };
}

/**
 * Returns the variables of the first revision of a new deployment that uses these groups; null: there are no groups.
 * @throws ApiError 404 for a group of another workspace; 400 `invalidSecret` when the variables are too large together.
 */
export async function firstVariables(
  db: Db,
  sealer: Sealer,
  deployment: Target,
  { groupIds, own }: { groupIds: readonly string[]; own: Record<string, string> },
): Promise<SharedVariables | null> {
  const groups: GroupRow[] = [];
  for (const id of new Set(groupIds)) groups.push(await readVariableGroup(db, sealer, deployment.tenant_id, id));
  const resolved = merge(groups, deployment, own);
  if (resolved === null) return null;
  const variables = Object.entries(resolved.values).map(([name, value]) => ({ name, value }));
  const set = sealSecrets(sealer, checkSecrets(variables, deployment.source), deployment);
  return { set, groups: resolved.groups };
}

/** Gives a new deployment its groups, and its first revision their variables. Call it in the unit that creates the deployment. */
export async function useGroups(
  db: Db,
  by: Parameters<typeof setGroupsOfDeployment>[1],
  made: {
    deployment: Pick<DeploymentRow, "id" | "tenant_id" | "name">;
    /** null: there is no revision yet. */
    revisionId: string | null;
    ownSetId: string | null;
    shared: SharedVariables;
  },
): Promise<void> {
  const { deployment, revisionId, ownSetId, shared } = made;
  await db.transaction(async (trx) => {
    const ids = shared.groups.map(({ id }) => id);
    await setGroupsOfDeployment(trx, by, deployment, ids);
    if (revisionId === null) return;
    await insertSet(trx, deployment, shared.set);
    await recordVariables(trx, revisionId, { setId: shared.set.id, ownSetId, groups: shared.groups });
  });
}

/** Gives a new preview the groups of its parent, and its first revision their variables. */
export async function copyGroups(
  db: Db,
  made: {
    parentId: string;
    owner: Pick<DeploymentRow, "id" | "tenant_id">;
    revisionId: string;
    ownSetId: string | null;
    shared: SharedVariables;
  },
): Promise<void> {
  const { parentId, owner, revisionId, ownSetId, shared } = made;
  await db.transaction(async (trx) => {
    await insertSet(trx, owner, shared.set);
    await trx.query(sql`
      insert into deployment_variable_groups (deployment_id, group_id, position)
      select ${owner.id}::uuid, group_id, position from deployment_variable_groups where deployment_id = ${parentId}`);
    await recordVariables(trx, revisionId, { setId: shared.set.id, ownSetId, groups: shared.groups });
  });
}

async function insertSet(trx: Trx, owner: Pick<DeploymentRow, "id" | "tenant_id">, set: SealedSet): Promise<void> {
  await trx.query(sql`
    insert into secret_sets (id, tenant_id, deployment_id, data_key_id, sealed)
    values (${set.id}, ${owner.tenant_id}, ${owner.id}, ${set.dataKeyId}, ${set.sealed})`);
}
