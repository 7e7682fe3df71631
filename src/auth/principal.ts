import type { KeyScope } from "../contract/administration/organization.ts";
import { errors } from "../contract/error.ts";
import type { Role } from "../contract/operation.ts";
import { type KeyRole, scopeOf } from "../store/tenants/api-keys.ts";
import type { Reach } from "../store/tenants/scope.ts";
import { type Holder, isMember, type Keyring } from "./keyring.ts";
import { mayCall, reaches } from "./permissions.ts";

/** What a request says about who is asking. */
export interface Credentials {
  key: string | undefined;
  /** Token of a browser that is signed in; counts where no key is shown. */
  session: string | undefined;
  /** `X-Service-Key`: counts where there is no other key. */
  serviceKey: string | undefined;
  /** `X-Tenant-Id`: any text, compared only. */
  tenantId: string | undefined;
  organizationId: string | undefined;
}

/** Who asks for things of a workspace. */
export interface Principal {
  organizationId: string;
  tenantId: string;
  role: KeyRole;
  scope: KeyScope;
  /** Of the key, or of a person's membership. */
  keyId: string;
  /** Name for the audit log. */
  actor: string;
  /** The one user that a service speaks for; null: whom the request names. */
  userId: string | null;
}

/** Who administers a workspace, an organization or the installation. */
export interface Administrator {
  /** The key's own organization: meant where none is named. */
  organizationId: string;
  /** The workspace that is meant where none is named; null: there is none. */
  workspaceId: string | null;
  scope: KeyScope;
  /** What it may see and change; the rest is as if it did not exist. */
  reach: Reach;
  holder: Holder;
  /** Of the key, or of the person's membership. */
  keyId: string;
  actor: string;
}

/** A data plane. It serves every workspace whose deployments are assigned to it, so it has no tenant. */
export interface ListenerPrincipal {
  listenerId: string;
  keyId: string;
  keyEndsAt: Date | null;
  actor: string;
}

/**
 * Who is asking, and may they (contract 1.3)?
 * @throws ApiError 401 without a valid key; 403 when the workspace is missing, foreign or switched off, or the role is too small.
 */
export async function findPrincipal(keyring: Keyring, asked: Credentials, needed: Role): Promise<Principal> {
  if (isOfService(asked)) return findService(keyring, asked, needed);
  const key = await findHolder(keyring, asked);
  const workspace = await workspaceOf(keyring, key, asked);
  if (workspace === undefined) throw errors.workspaceRequired();
  if (!mayCall(key.role, needed)) throw errors.roleMissing(needed);
  if (!workspace.isEnabled) throw errors.deploymentsDisabled();
  return {
    organizationId: key.organization_id,
    tenantId: workspace.id,
    role: key.role,
    scope: scopeOf(key),
    keyId: key.id,
    actor: actorOf(key),
    userId: null,
  };
}

/**
 * Is whoever was admitted some time ago, and has waited since, still to be answered? A service key ends within minutes by
 * itself, and nobody ends it before: its service is answered.
 * @throws ApiError as `findPrincipal`.
 */
export async function checkStill(keyring: Keyring, asked: Credentials, needed: Role, was: Principal): Promise<void> {
  if (isOfService(asked)) return;
  const { tenantId } = await findPrincipal(keyring, asked, needed);
  if (tenantId !== was.tenantId) throw errors.forbidden();
}

/** A service of the operator's may in a workspace what agents may: get tokens for users. */
async function findService(keyring: Keyring, asked: Credentials, needed: Role): Promise<Principal> {
  const { claims, workspace } = await readService(keyring, asked);
  if (asked.tenantId !== undefined && !isSame(asked.tenantId, workspace.id)) throw errors.tenantMismatch();
  if (!mayCall("agent", needed)) throw errors.roleMissing(needed);
  if (!workspace.deployments_enabled) throw errors.deploymentsDisabled();
  const name = `service:${claims.service}`;
  return {
    organizationId: workspace.organization_id,
    tenantId: workspace.id,
    role: "agent",
    scope: "workspace",
    keyId: name,
    actor: name,
    userId: claims.userId,
  };
}

const isOfService = ({ key, serviceKey }: Credentials) => key === undefined && serviceKey !== undefined;

async function readService(keyring: Keyring, { serviceKey = "", organizationId }: Credentials) {
  const claims = keyring.readServiceKey(serviceKey);
  const workspace = claims && (await keyring.findWorkspace(claims.tenantId));
  if (claims === undefined || workspace === undefined) throw errors.invalidToken();
  if (organizationId !== undefined && !isSame(organizationId, workspace.organization_id)) throw errors.forbidden();
  return { claims, workspace };
}

/**
 * @param isEnrolling the key has to be one that is to be exchanged for another one; otherwise it must not be.
 * @throws ApiError 401 without a valid key; 403 unless it belongs to a listener; 409 `enrolled`.
 */
export async function findListenerPrincipal(
  keyring: Keyring,
  asked: Credentials,
  { isEnrolling = false } = {},
): Promise<ListenerPrincipal> {
  if (isOfService(asked)) {
    await readService(keyring, asked);
    throw errors.roleMissing("listener");
  }
  const key = await findHolder(keyring, asked);
  if (!mayCall(key.role, "listener") || key.listener_id === null) throw errors.roleMissing("listener");
  if (isMember(key) || key.one_time !== isEnrolling)
    throw isEnrolling ? errors.enrolled() : errors.roleMissing("listener");
  return { listenerId: key.listener_id, keyId: key.id, keyEndsAt: key.expires_at, actor: actorOf(key) };
}

/**
 * Who administers, and how far? No workspace need be named; one that is named has to be one of the key's.
 * @throws ApiError 401 without a valid key; 403 when the workspace is foreign, or the role or scope is too small.
 */
export async function findAdministrator(
  keyring: Keyring,
  asked: Credentials,
  needed: { role: Role; administers: KeyScope | null },
): Promise<Administrator> {
  if (isOfService(asked)) {
    await findService(keyring, asked, needed.role);
    throw errors.roleMissing(needed.role);
  }
  const key = await findHolder(keyring, asked);
  const workspace = await workspaceOf(keyring, key, asked);
  if (!mayCall(key.role, needed.role)) throw errors.roleMissing(needed.role);
  const scope = scopeOf(key);
  if (!reaches(scope, needed.administers ?? "workspace")) throw errors.scopeMissing(needed.administers as string);
  const organizationId = key.organization_id;
  return {
    organizationId,
    workspaceId: workspace?.id ?? null,
    scope,
    reach: {
      organizationId: scope === "installation" ? null : organizationId,
      workspaceId: scope === "workspace" ? key.workspace_id : null,
    },
    holder: key,
    keyId: key.id,
    actor: actorOf(key),
  };
}

async function findHolder(keyring: Keyring, asked: Credentials): Promise<Holder> {
  const { key: shown } = asked;
  const key = await (shown === undefined ? holderOfSession(keyring, asked) : keyring.findKey(shown));
  if (!key) throw errors.invalidToken();
  if (asked.organizationId !== undefined && !isSame(asked.organizationId, key.organization_id))
    throw errors.forbidden();
  return key;
}

/** Of a person's memberships the strongest that reaches the workspace that is named; if none is, the strongest of all. */
async function holderOfSession(keyring: Keyring, { session, tenantId }: Credentials): Promise<Holder | undefined> {
  const held = session === undefined ? [] : await keyring.findSession(session);
  if (held.length < 2 || tenantId === undefined) return held[0];
  const workspace = await namedWorkspace(keyring, tenantId);
  const reaching = held.find(({ workspace_id, organization_id }) =>
    workspace_id === null ? organization_id === workspace?.organization_id : workspace_id === workspace?.id,
  );
  return reaching ?? held[0];
}

/** The key's own workspace, or the one it names; undefined: it has none and names none. */
async function workspaceOf(keyring: Keyring, key: Holder, asked: Credentials) {
  if (scopeOf(key) === "workspace") return ownWorkspace(key, asked);
  if (asked.tenantId !== undefined) return chosenWorkspace(keyring, key, asked.tenantId);
  return key.workspace_id === null ? undefined : ownWorkspace(key, asked);
}

function ownWorkspace(key: Holder, asked: Credentials): { id: string; isEnabled: boolean } {
  const id = key.workspace_id as string;
  if (asked.tenantId !== undefined && !isSame(asked.tenantId, id)) throw errors.tenantMismatch();
  return { id, isEnabled: key.deployments_enabled !== false };
}

/** A key of an organization is good for any of its workspaces, but the caller has to say which. */
async function chosenWorkspace(keyring: Keyring, key: Holder, tenantId: string) {
  const workspace = await namedWorkspace(keyring, tenantId);
  if (workspace?.organization_id !== key.organization_id) throw errors.forbidden();
  return { id: workspace.id, isEnabled: workspace.deployments_enabled };
}

const namedWorkspace = async (keyring: Keyring, tenantId: string) =>
  uuidText.test(tenantId) ? keyring.findWorkspace(tenantId.toLowerCase()) : undefined;

const uuidText = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const isSame = (asked: string, id: string) => asked.toLowerCase() === id;

const actorOf = (holder: Holder) => `${isMember(holder) ? "member" : "key"}:${holder.id}`;
