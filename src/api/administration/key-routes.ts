import { mintApiKey } from "../../auth/api-key.ts";
import { reaches } from "../../auth/permissions.ts";
import type { Administrator } from "../../auth/principal.ts";
import type { ApiKey, CreateApiKey } from "../../contract/administration/api-key.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { findListener } from "../../store/data-plane/workspace-listeners.ts";
import type { Db } from "../../store/engine/database.ts";
import {
  type ApiKeyRow,
  createApiKey,
  endOfKey,
  findApiKey,
  listApiKeys,
  type NewApiKey,
  revokeApiKey,
  scopeOf,
} from "../../store/tenants/api-keys.ts";
import { type Api, adminRoute } from "../http/route.ts";
import { readOrganization, readWorkspace } from "./tenant-routes.ts";

/** Adds the routes of API keys. A key cannot create one that reaches further than itself. */
export function addApiKeyRoutes(api: Api): void {
  const { db } = api.deps;

  adminRoute(api, operations.listApiKeys, async ({ principal, query }) => {
    const filter = {
      organizationId: query.organization_id ?? null,
      workspaceId: query.workspace_id ?? null,
      role: query.role ?? null,
      inactive: query.include_inactive,
    };
    const rows = await listApiKeys(db, principal.reach, filter, query);
    return { resources: rows.map((row) => apiKeyOf(row, db.now())), offset: query.offset + rows.length };
  });

  adminRoute(api, operations.createApiKey, async ({ principal, body }) => {
    const { key, ...minted } = mintApiKey();
    const row = await createApiKey(db, { ...minted, ...(await newKeyOf(db, principal, body)) }, principal.actor);
    return { ...apiKeyOf(row, db.now()), key };
  });

  adminRoute(api, operations.getApiKey, async ({ principal, params }) => {
    const row = await findApiKey(db, principal.reach, params.api_key_id);
    if (row === undefined) throw errors.apiKeyNotFound(params.api_key_id);
    return apiKeyOf(row, db.now());
  });

  adminRoute(api, operations.revokeApiKey, async ({ principal, params }) => {
    const id = params.api_key_id;
    if (!(await revokeApiKey(db, principal.reach, id, principal.actor))) throw errors.apiKeyNotFound(id);
    db.afterCommit(api.keyring.forget);
  });
}

type KeySettings = Omit<NewApiKey, "prefix" | "hash">;

/**
 * Returns the settings of a new key. @throws ApiError 400 for contradictory settings, 403 for too wide a scope, 404 for
 * what is out of reach.
 */
async function newKeyOf(db: Db, principal: Administrator, body: CreateApiKey): Promise<KeySettings> {
  const scope = body.scope ?? "workspace";
  if (!reaches(principal.scope, scope)) throw errors.scopeMissing(scope);
  if ((body.role === "listener") !== (typeof body.listener_id === "string")) {
    throw errors.invalidSetting(
      "listener_id",
      "is required for the role 'listener', and not allowed for any other role.",
    );
  }
  const common = { name: body.name, role: body.role, listenerId: null, expiresAt: expiryOf(body, db.now()) };
  if (scope === "workspace") return { ...common, ...(await inWorkspace(db, principal, body)) };
  if (typeof body.workspace_id === "string") {
    throw errors.invalidSetting("workspace_id", `cannot be combined with the scope '${scope}'.`);
  }
  if (body.role === "listener") throw errors.invalidSetting("scope", "must be 'workspace' for a listener's key.");
  if (scope === "installation" && body.role !== "admin") {
    throw errors.invalidSetting("role", "must be 'admin' for a key of the installation.");
  }
  const { id } = await readOrganization(db, principal, body.organization_id ?? principal.organizationId);
  return { ...common, organizationId: id, workspaceId: null, isOperator: scope === "installation" };
}

async function inWorkspace(db: Db, principal: Administrator, body: CreateApiKey) {
  const named = body.workspace_id ?? principal.workspaceId;
  if (named === null)
    throw errors.invalidSetting("workspace_id", "is required, because this key has no workspace of its own.");
  const workspace = await readWorkspace(db, principal, named);
  if (typeof body.organization_id === "string" && body.organization_id !== workspace.organization_id) {
    throw errors.invalidSetting("organization_id", "is not the organization of the workspace; leave it out.");
  }
  const owner = { organizationId: workspace.organization_id, workspaceId: workspace.id };
  if (typeof body.listener_id !== "string") return owner;
  const listener = await findListener(db, workspace.id, body.listener_id);
  if (listener === undefined) throw errors.listenerNotFound(body.listener_id);
  return { ...owner, listenerId: listener.id };
}

function expiryOf({ expires_at: text }: CreateApiKey, now: Date): Date | null {
  if (typeof text !== "string") return null;
  const expiresAt = new Date(text);
  if (expiresAt <= now) throw errors.invalidSetting("expires_at", "must be in the future.");
  return expiresAt;
}

/** Returns the wire shape of a key, without the key itself or its digest. */
export function apiKeyOf(row: ApiKeyRow, now: Date): ApiKey {
  const hasExpired = row.expires_at !== null && row.expires_at <= now;
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix.includes(":") ? row.prefix : `ph_${row.prefix}`,
    role: row.role,
    scope: scopeOf(row),
    organization_id: row.organization_id,
    workspace_id: row.workspace_id,
    listener_id: row.listener_id,
    status: row.revoked_at !== null ? "revoked" : hasExpired ? "expired" : "active",
    created_at: row.created_at.toISOString(),
    expires_at: (hasExpired ? row.expires_at : endOfKey(row))?.toISOString() ?? null,
    last_used_at: row.last_used_at?.toISOString() ?? null,
    revoked_at: row.revoked_at?.toISOString() ?? null,
  };
}
