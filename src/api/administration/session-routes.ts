import type { FastifyRequest } from "fastify";
import { digestOf, digestOfCode, mintSessionToken, mintSignInCode } from "../../auth/api-key.ts";
import { type Holder, isMember } from "../../auth/keyring.ts";
import { findAdministrator } from "../../auth/principal.ts";
import {
  cookieName,
  type Session,
  sessionCookie,
  sessionDays,
  signInCodePrefix,
  signInLinkMinutes,
} from "../../contract/administration/session.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import type { Db } from "../../store/engine/database.ts";
import { type ApiKeyRow, endOfKey, findApiKey, scopeOf } from "../../store/tenants/api-keys.ts";
import {
  createSession,
  createSignInCode,
  deleteSession,
  findSession,
  listMemberWorkspaces,
  useSignInCode,
} from "../../store/tenants/sessions.ts";
import { listWorkspaces } from "../../store/tenants/tenants.ts";
import type { ApiSettings } from "../deps.ts";
import { isFromConsole, sessionTokenOf } from "../http/authenticate.ts";
import { isSecure } from "../http/path-prefixes.ts";
import { type Api, adminRoute, type Handler, openRoute } from "../http/route.ts";
import { apiUrlOf } from "../http/urls.ts";

/** Adds the routes to sign in to the console with a key, and to sign out. */
export function addSessionRoutes(api: Api): void {
  const { db } = api.deps;

  const admit = ({ headers }: FastifyRequest) => {
    if (!isFromConsole(headers)) throw errors.forbidden();
  };
  const signIn: Handler<typeof operations.createSession, null> = async ({ body, request, setCookie }) => {
    const credentials = {
      key: body.api_key.trim(),
      session: undefined,
      serviceKey: undefined,
      tenantId: undefined,
      organizationId: undefined,
    };
    const reader = { role: "reader", administers: "workspace" } as const;
    const { key, actor } = await api.limits.admit(
      request,
      async (one) => {
        if (credentials.key.startsWith(signInCodePrefix)) return findByCode(db, credentials.key);
        const { keyId, actor } = await findAdministrator(api.keyring, one, reader);
        return { key: (await findApiKey(db, everything, keyId)) as ApiKeyRow, actor };
      },
      credentials,
    );
    const token = mintSessionToken();
    const expiresAt = new Date(
      Math.min(db.now().getTime() + sessionDays * dayMs, endOfKey(key)?.getTime() ?? Infinity),
    );
    await createSession(db, { tokenHash: digestOf(token), key, expiresAt }, actor);
    setCookie(cookieOf(request, api.deps.settings, token, expiresAt));
    return sessionOf(db, key, expiresAt);
  };
  openRoute(api, operations.createSession, signIn, { admit });

  adminRoute(api, operations.createSignInLink, async ({ principal: { holder, actor }, request }) => {
    // A session must not renew itself beyond its end, and a link for a person would bypass the identity provider.
    if (isMember(holder) || sessionTokenOf(request.headers) !== undefined) throw errors.forbidden();
    const key = (await findApiKey(db, everything, holder.id)) as ApiKeyRow;
    const code = mintSignInCode();
    const expiresAt = new Date(db.now().getTime() + signInLinkMinutes * 60_000);
    await createSignInCode(db, { codeHash: digestOfCode(code), key, expiresAt }, actor);
    const url = `${apiUrlOf(request.raw, api.deps.settings)}/#sign-in=${code}`;
    return { url, expires_at: expiresAt.toISOString() };
  });

  adminRoute(api, operations.getSession, async ({ principal: { holder }, request }) => {
    const token = sessionTokenOf(request.headers);
    const session = token === undefined ? undefined : await findSession(db, digestOf(token));
    const isBySession = session?.holders.some(({ id }) => id === holder.id) === true;
    if (isMember(holder)) return sessionOf(db, holder, session?.expires_at ?? null);
    const key = (await findApiKey(db, everything, holder.id)) as ApiKeyRow;
    return sessionOf(db, key, isBySession ? session.expires_at : endOfKey(key));
  });

  openRoute(api, operations.deleteSession, async ({ request, setCookie }) => {
    const token = isFromConsole(request.headers) ? sessionTokenOf(request.headers) : undefined;
    if (token === undefined) return;
    await deleteSession(db, digestOf(token));
    api.keyring.forget();
    setCookie(cookieOf(request, api.deps.settings, "", new Date(0)));
  });
}

const dayMs = 86_400_000;

/** @throws ApiError 401 when the code of a link was used or has expired, or when its key has. */
async function findByCode(db: Db, code: string): Promise<{ key: ApiKeyRow; actor: string }> {
  const key = await useSignInCode(db, digestOfCode(code));
  if (key === undefined || key.revoked_at !== null) throw errors.invalidToken();
  if (key.expires_at !== null && key.expires_at <= db.now()) throw errors.invalidToken();
  return { key, actor: `key:${key.id}` };
}

/** A key may read itself, whatever its reach. */
const everything = { organizationId: null, workspaceId: null };

/** Maximum number of workspaces in a session. */
const workspacesMax = 100;

async function sessionOf(db: Db, holder: Holder, expiresAt: Date | null): Promise<Session> {
  const { id, role } = holder;
  return {
    api_key_id: isMember(holder) ? null : id,
    member_id: isMember(holder) ? id : null,
    name: isMember(holder) ? (holder.name ?? holder.email) : holder.name,
    role,
    scope: scopeOf(holder),
    organization_id: holder.organization_id,
    workspace_id: holder.workspace_id,
    workspaces: isMember(holder)
      ? await listMemberWorkspaces(db, holder.email, workspacesMax)
      : await keyWorkspaces(db, holder),
    expires_at: expiresAt?.toISOString() ?? null,
  };
}

async function keyWorkspaces(db: Db, key: ApiKeyRow): Promise<Session["workspaces"]> {
  const { role } = key;
  const scope = scopeOf(key);
  const reach = { organizationId: key.organization_id, workspaceId: scope === "workspace" ? key.workspace_id : null };
  const page = { limit: workspacesMax, offset: 0 };
  const found = await listWorkspaces(db, reach, { organizationId: null }, page);
  return found.map(({ id, name }) => ({ id, name, role, scope }));
}

/**
 * Returns a `Strict` cookie: a link from elsewhere still opens the page, which then calls the API itself. @param
 * isSecure Whether the page came over https.
 */
export function sessionCookieText(token: string, expiresAt: Date, isSecure: boolean): string {
  const secure = isSecure ? "; Secure" : "";
  const text = `${cookieName(sessionCookie, isSecure)}=${token}; Path=/; HttpOnly; SameSite=Strict`;
  // Browsers limit the cookies of a domain. Those of agents on the same host must not push this one out.
  return `${text}; Priority=High; Expires=${expiresAt.toUTCString()}${secure}`;
}

const cookieOf = (request: FastifyRequest, settings: ApiSettings, token: string, expiresAt: Date) =>
  sessionCookieText(token, expiresAt, isSecure(request.raw, settings));
