import type { OAuthDeps } from "../../auth/oauth/deps.ts";
import { revokeTokens } from "../../auth/oauth/drop-tokens.ts";
import type { Administrator } from "../../auth/principal.ts";
import type { Organization, Quotas, Workspace } from "../../contract/administration/organization.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { modes } from "../../domain/mode.ts";
import type { Db } from "../../store/engine/database.ts";
import { changeQuotas, findQuotas, readUsage } from "../../store/tenants/quotas.ts";
import {
  changeOrganization,
  changeWorkspace,
  createOrganization,
  createWorkspace,
  deleteOrganization,
  deleteWorkspace,
  findOrganization,
  findWorkspace,
  listOrganizations,
  listWorkspaces,
  type OrganizationRow,
  type WorkspaceRow,
} from "../../store/tenants/tenants.ts";
import { type Api, adminRoute } from "../http/route.ts";
import { withoutNulls } from "../validation/without-nulls.ts";

/** Adds the routes of organizations, their workspaces and quotas. */
export function addTenantRoutes(api: Api, oauth: OAuthDeps): void {
  addOrganizationRoutes(api);
  addWorkspaceRoutes(api, oauth);
  addQuotaRoutes(api);
}

function addOrganizationRoutes(api: Api): void {
  const { db, settings } = api.deps;

  adminRoute(api, operations.listOrganizations, async ({ principal, query }) => {
    const rows = await listOrganizations(db, principal.reach, query);
    return { resources: rows.map(organizationOf), offset: query.offset + rows.length };
  });

  adminRoute(api, operations.createOrganization, async ({ principal, body }) => {
    const plan = body.plan ?? modes[settings.mode].defaultPlan;
    const id = await createOrganization(db, { name: body.name, plan, actor: principal.actor });
    return organizationOf(await readOrganization(db, principal, id));
  });

  adminRoute(api, operations.getOrganization, async ({ principal, params }) =>
    organizationOf(await readOrganization(db, principal, params.organization_id)),
  );

  adminRoute(api, operations.patchOrganization, async ({ principal, params, body }) => {
    const id = params.organization_id;
    if (body.plan) operatorsOnly(principal);
    const { actor, reach } = principal;
    const row = await changeOrganization(db, reach, id, { ...withoutNulls(body), actor });
    if (row === undefined) throw errors.organizationNotFound(id);
    db.afterCommit(api.keyring.forget);
    return organizationOf(row);
  });

  adminRoute(api, operations.deleteOrganization, async ({ principal, params }) => {
    const id = params.organization_id;
    const isDeleted = await deleteOrganization(db, principal.reach, id, principal.actor);
    if (!isDeleted) throw errors.organizationNotFound(id);
    db.afterCommit(api.keyring.forget);
  });
}

function addWorkspaceRoutes(api: Api, oauth: OAuthDeps): void {
  const { db } = api.deps;

  adminRoute(api, operations.listWorkspaces, async ({ principal, query }) => {
    const filter = { organizationId: query.organization_id ?? null };
    const rows = await listWorkspaces(db, principal.reach, filter, query);
    return { resources: rows.map(workspaceOf), offset: query.offset + rows.length };
  });

  adminRoute(api, operations.createWorkspace, async ({ principal, body }) => {
    const { id: organizationId } = await readOrganization(
      db,
      principal,
      body.organization_id ?? principal.organizationId,
    );
    const id = await createWorkspace(db, { organizationId, name: body.name, actor: principal.actor });
    return workspaceOf(await readWorkspace(db, principal, id));
  });

  adminRoute(api, operations.getWorkspace, async ({ principal, params }) =>
    workspaceOf(await readWorkspace(db, principal, params.workspace_id)),
  );

  adminRoute(api, operations.patchWorkspace, async ({ principal, params, body }) => {
    const id = params.workspace_id;
    const { name, deployments_enabled: deploymentsEnabled } = withoutNulls(body);
    if (deploymentsEnabled !== undefined) operatorsOnly(principal);
    const { actor, reach } = principal;
    const wanted = {
      ...(name !== undefined && { name }),
      ...(deploymentsEnabled !== undefined && { deploymentsEnabled }),
    };
    const row = await changeWorkspace(db, reach, id, { ...wanted, actor });
    if (row === undefined) throw errors.workspaceNotFound(id);
    db.afterCommit(api.keyring.forget);
    return workspaceOf(row);
  });

  adminRoute(api, operations.deleteWorkspace, async ({ principal, params }) => {
    const id = params.workspace_id;
    const tokens = await deleteWorkspace(db, principal.reach, id, principal.actor);
    if (tokens === undefined) throw errors.workspaceNotFound(id);
    db.afterCommit(api.keyring.forget);
    // Only after the commit, because a workspace that is in use is not deleted and keeps its tokens.
    db.afterCommit(() => void oauth.exchanges.share(`workspace/${id}`, () => revokeTokens(oauth, [tokens])));
  });
}

function addQuotaRoutes(api: Api): void {
  const { db } = api.deps;

  adminRoute(api, operations.getQuotas, async ({ principal, params }) =>
    quotasOf(db, (await readWorkspace(db, principal, params.workspace_id)).id),
  );

  adminRoute(api, operations.patchQuotas, async ({ principal, params, body }) => {
    const id = params.workspace_id;
    const { deployments, replicas, build_minutes: buildMinutes } = body;
    const wanted = { deployments, replicas, buildMinutes, actor: principal.actor };
    if (!(await changeQuotas(db, principal.reach, id, wanted))) throw errors.workspaceNotFound(id);
    return quotasOf(db, id);
  });
}

/** Returns an organization. @throws ApiError 404 with the same text for unknown ids and those out of reach. */
export async function readOrganization(db: Db, { reach }: Administrator, id: string): Promise<OrganizationRow> {
  const row = await findOrganization(db, reach, id);
  if (row === undefined) throw errors.organizationNotFound(id);
  return row;
}

/** Returns a workspace. @throws ApiError 404 with the same text for unknown ids and those out of reach. */
export async function readWorkspace(db: Db, { reach }: Administrator, id: string): Promise<WorkspaceRow> {
  const row = await findWorkspace(db, id, reach);
  if (row === undefined) throw errors.workspaceNotFound(id);
  return row;
}

function operatorsOnly({ scope }: Administrator): void {
  if (scope !== "installation") throw errors.scopeMissing("installation");
}

const organizationOf = ({ id, name, plan, created_at }: OrganizationRow): Organization => ({
  id,
  name,
  plan,
  created_at: created_at.toISOString(),
});

const workspaceOf = (row: WorkspaceRow): Workspace => ({
  id: row.id,
  organization_id: row.organization_id,
  name: row.name,
  deployments_enabled: row.deployments_enabled,
  created_at: row.created_at.toISOString(),
});

async function quotasOf(db: Db, workspaceId: string): Promise<Quotas> {
  const [limits, used] = [await findQuotas(db, workspaceId), await readUsage(db, workspaceId)];
  return {
    workspace_id: workspaceId,
    deployments: { limit: limits.deployments, used: used.deployments },
    replicas: { limit: limits.replicas, used: used.replicas },
    build_minutes: { limit: limits.buildMinutes, used: Math.round(used.buildMinutes * 1_000) / 1_000 },
    month: used.month,
  };
}
