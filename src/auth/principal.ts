import type { KeyScope } from "../contract/administration/organization.ts";
import { errors } from "../contract/error.ts";
import type { Role } from "../contract/operation.ts";
import { type KeyRole, scopeOf } from "../store/tenants/api-keys.ts";
import type { Reach } from "../store/tenants/scope.ts";
import { type Holder, isMember, type Keyring } from "./keyring.ts";
import { mayCall, reaches } from "./permissions.ts";

/** Credentials of a request. */
export interface Credentials {
  key: string | undefined;
  /** Session token of a signed-in browser. Used only without a key. */
  session: string | undefined;
  /** `X-Service-Key`. Used only without a key. */
  serviceKey: string | undefined;
  /** `X-Tenant-Id`: any text, used only for comparison. */
  tenantId: string | undefined;
  organizationId: string | undefined;
}

/** Caller of an operation of one workspace. */
export interface Principal {
  organizationId: string;
  tenantId: string;
  role: KeyRole;
  scope: KeyScope;
  /** Id of the key, or of a person's membership. */
  keyId: string;
  /** Name for the audit log. */
  actor: string;
  /** The only user that a service acts for. null: the user that the request names. */
  userId: string | null;
  /** The deployment that shows an assertion about this caller. Absent: the caller showed its own credential. */
  assertedFor?: string;
}

/** Caller of an operation that administers a workspace, an organization or the installation. */
export interface Administrator {
  /** Default organization: the key's own. */
  organizationId: string;
  /** Default workspace. null: there is none. */
  workspaceId: string | null;
  scope: KeyScope;
  /** What the caller may see and change. Everything else appears not to exist. */
  reach: Reach;
  holder: Holder;
  /** Id of the key, or of the person's membership. */
  keyId: string;
  actor: string;
}

/** Caller of the listener protocol. */
export interface ListenerPrincipal {
  listenerId: string;
  /** The workspace that the listener belongs to. null: it serves the deployments of all workspaces. */
  workspaceId: string | null;
  keyId: string;
  keyEndsAt: Date | null;
  actor: string;
}

/** Caller of any operation that needs a key. */
export type Caller = Principal | Administrator | ListenerPrincipal;

/**
 * Returns whose request it is: the workspace or organization whose limits and turns it takes.
 * null: the caller has no key, or is a listener of the server, which serves all workspaces.
 */
export function ownerOf(caller: Caller | null): string | null {
  if (caller === null) return null;
  if ("tenantId" in caller) return caller.tenantId;
  return "organizationId" in caller ? (caller.workspaceId ?? caller.organizationId) : caller.workspaceId;
}

/**
 * Identifies the caller of a workspace operation and checks the role (contract 1.3).
 * @throws ApiError 401 without a valid key; 403 when the workspace is missing, foreign or disabled, or the role is too low.
 */
export async function findPrincipal(keyring: Keyring, credentials: Credentials, needed: Role): Promise<Principal> {
  if (isOfService(credentials)) return findService(keyring, credentials, needed);
  const asserted = needed === "caller" ? await findAsserted(keyring, credentials) : undefined;
  if (asserted !== undefined) return asserted;
  const key = await findHolder(keyring, credentials);
  const workspace = await chosenBy(keyring, key, credentials);
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
 * Checks again whether a caller that was admitted earlier may still get its response, after a wait. A service key expires
 * within minutes and cannot be revoked, so a service always gets its response.
 * @throws ApiError as `findPrincipal`.
 */
export async function recheckPrincipal(
  keyring: Keyring,
  credentials: Credentials,
  needed: Role,
  was: Principal,
): Promise<void> {
  if (isOfService(credentials)) return;
  const { tenantId } = await findPrincipal(keyring, credentials, needed);
  if (tenantId !== was.tenantId) throw errors.forbidden();
}

/** Identifies a service of the operator. It may do in a workspace what agents may: get tokens for users. */
async function findService(keyring: Keyring, credentials: Credentials, needed: Role): Promise<Principal> {
  const { claims, workspace } = await readService(keyring, credentials);
  if (credentials.tenantId !== undefined && !isSame(credentials.tenantId, workspace.id))
    throw errors.tenantMismatch(foreignTenant);
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

/**
 * Identifies the caller of an agent by the assertion that its gateway passed to it. An agent may ask who its caller is. No
 * other operation accepts an assertion.
 */
async function findAsserted(keyring: Keyring, { key = "", tenantId }: Credentials): Promise<Principal | undefined> {
  const claims = keyring.readAssertion(key);
  if (claims === undefined) return undefined;
  const workspace = await keyring.findWorkspace(claims.tenantId);
  if (workspace === undefined) throw errors.invalidToken();
  if (tenantId !== undefined && !isSame(tenantId, workspace.id)) throw errors.tenantMismatch(foreignTenant);
  if (!workspace.deployments_enabled) throw errors.deploymentsDisabled();
  return {
    organizationId: claims.organizationId,
    tenantId: workspace.id,
    role: claims.role,
    scope: "workspace",
    keyId: claims.caller,
    actor: claims.caller,
    userId: null,
    assertedFor: claims.deploymentId,
  };
}

const isOfService = ({ key, serviceKey }: Credentials) => key === undefined && serviceKey !== undefined;

async function readService(keyring: Keyring, { serviceKey = "", organizationId }: Credentials) {
  const claims = keyring.readServiceKey(serviceKey);
  const workspace = claims && (await keyring.findWorkspace(claims.tenantId));
  if (claims === undefined || workspace === undefined)
    throw errors.invalidToken("The key in X-Service-Key is invalid or expired.");
  if (organizationId !== undefined && !isSame(organizationId, workspace.organization_id))
    throw errors.forbidden(foreignOrganization);
  return { claims, workspace };
}

/**
 * Identifies the listener that calls.
 * @param isEnrolling the key must be a one-time enrollment token; otherwise it must not be one.
 * @throws ApiError 401 without a valid key; 403 unless it belongs to a listener; 409 `enrolled`.
 */
export async function findListenerPrincipal(
  keyring: Keyring,
  credentials: Credentials,
  { isEnrolling = false } = {},
): Promise<ListenerPrincipal> {
  if (isOfService(credentials)) {
    await readService(keyring, credentials);
    throw errors.roleMissing("listener");
  }
  const key = await findHolder(keyring, credentials);
  if (!mayCall(key.role, "listener") || key.listener_id === null) throw errors.roleMissing("listener");
  if (isMember(key) || key.one_time !== isEnrolling)
    throw isEnrolling ? errors.enrolled() : errors.roleMissing("listener");
  const { listener_id: listenerId, workspace_id: workspaceId } = key;
  return { listenerId, workspaceId, keyId: key.id, keyEndsAt: key.expires_at, actor: actorOf(key) };
}

/**
 * Identifies the caller of an administrative operation and its reach. The request may name a workspace, which must be one
 * of the key's.
 * @throws ApiError 401 without a valid key; 403 when the workspace is foreign, or the role or scope is too low.
 */
export async function findAdministrator(
  keyring: Keyring,
  credentials: Credentials,
  needed: { role: Role; administers: KeyScope | null },
): Promise<Administrator> {
  if (isOfService(credentials)) {
    await findService(keyring, credentials, needed.role);
    throw errors.roleMissing(needed.role);
  }
  const key = await findHolder(keyring, credentials);
  const workspace = await chosenBy(keyring, key, credentials);
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

const foreignTenant = "The X-Tenant-Id header names another workspace than the credential's.";
const foreignOrganization = "The X-Organization-Id header does not name the organization of the credential.";
const foreignWorkspace = "The X-Tenant-Id header does not name a workspace of the key's organization.";
const unusableKey = "The key in X-Api-Key or Authorization is unknown, expired or revoked.";

async function findHolder(keyring: Keyring, credentials: Credentials): Promise<Holder> {
  const { key: shown } = credentials;
  const key = await (shown === undefined ? holderOfSession(keyring, credentials) : keyring.findKey(shown));
  if (!key) throw errors.invalidToken(shown === undefined ? undefined : unusableKey);
  if (credentials.organizationId !== undefined && !isSame(credentials.organizationId, key.organization_id))
    throw errors.forbidden(foreignOrganization);
  return key;
}

/** Returns the strongest membership of a session that reaches the named workspace, or the default one if none does. */
async function holderOfSession(keyring: Keyring, { session, tenantId }: Credentials): Promise<Holder | undefined> {
  const held = session === undefined ? [] : await keyring.findSession(session);
  if (held.length < 2 || tenantId === undefined) return held[0];
  const workspace = await namedWorkspace(keyring, tenantId);
  const reaching = held.find(({ workspace_id, organization_id }) =>
    workspace_id === null ? organization_id === workspace?.organization_id : workspace_id === workspace?.id,
  );
  return reaching ?? held[0];
}

/** Returns the key's own workspace, or the one that the request names. undefined: there is neither. */
async function chosenBy(keyring: Keyring, key: Holder, credentials: Credentials) {
  if (scopeOf(key) === "workspace") return ownWorkspace(key, credentials);
  if (credentials.tenantId !== undefined) return chosenWorkspace(keyring, key, credentials.tenantId);
  return key.workspace_id === null ? undefined : ownWorkspace(key, credentials);
}

function ownWorkspace(key: Holder, credentials: Credentials): { id: string; isEnabled: boolean } {
  const id = key.workspace_id as string;
  if (credentials.tenantId !== undefined && !isSame(credentials.tenantId, id))
    throw errors.tenantMismatch(foreignTenant);
  return { id, isEnabled: key.deployments_enabled !== false };
}

/** Returns the workspace that the request names. A key of an organization is valid for all its workspaces. */
async function chosenWorkspace(keyring: Keyring, key: Holder, tenantId: string) {
  const workspace = await namedWorkspace(keyring, tenantId);
  if (workspace?.organization_id !== key.organization_id) throw errors.forbidden(foreignWorkspace);
  return { id: workspace.id, isEnabled: workspace.deployments_enabled };
}

const namedWorkspace = async (keyring: Keyring, tenantId: string) =>
  uuidText.test(tenantId) ? keyring.findWorkspace(tenantId.toLowerCase()) : undefined;

const uuidText = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const isSame = (text: string, id: string) => text.toLowerCase() === id;

const actorOf = (holder: Holder) => `${isMember(holder) ? "member" : "key"}:${holder.id}`;
