import { randomInt } from "node:crypto";
import { digestOf, keyOfDeviceCode, mintDeviceCode } from "../../auth/api-key.ts";
import { isMember } from "../../auth/keyring.ts";
import { reaches } from "../../auth/permissions.ts";
import type { Administrator } from "../../auth/principal.ts";
import {
  deviceKeyDays,
  deviceLoginMinutes,
  devicePollSeconds,
  userCodeLength,
  userCodeLetters,
} from "../../contract/administration/device-login.ts";
import type { KeyScope } from "../../contract/administration/organization.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { endOfKey, revokeApiKey } from "../../store/tenants/api-keys.ts";
import {
  type Allowed,
  type DeviceLoginRow,
  decideDeviceLogin,
  findDeviceLogin,
  finishDeviceLogin,
  insertDeviceLogin,
} from "../../store/tenants/device-logins.ts";
import { type Api, adminRoute, openRoute } from "../http/route.ts";
import { apiUrlOf } from "../http/urls.ts";
import { apiKeyOf } from "./key-routes.ts";

/**
 * Adds the routes by which a command line gets a key without seeing another one: it shows a code, a person who is signed in to
 * the console types it there, and the command line polls (RFC 8628). The address has no code in it, so a link that an attacker
 * sends leads to an empty field.
 */
export function addDeviceLoginRoutes(api: Api): void {
  const { db, settings } = api.deps;

  openRoute(api, operations.startDeviceLogin, async ({ body, request }) => {
    if (settings.consoleDir === null) throw errors.routeNotFound();
    api.limits.countDeviceLogin(request);
    const deviceCode = mintDeviceCode();
    const userCode = mintUserCode();
    const isStored = await insertDeviceLogin(db, {
      deviceHash: digestOf(deviceCode),
      userCode,
      clientName: body.client_name,
      address: settings.trustedProxies.clientOf(request.raw),
      lifeMs: deviceLoginMinutes * 60_000,
    });
    if (!isStored) throw errors.unavailable("Too many command lines wait to be allowed.", 60);
    return {
      device_code: deviceCode,
      user_code: shown(userCode),
      verification_uri: `${apiUrlOf(request.raw, settings)}/host/device`,
      expires_in: deviceLoginMinutes * 60,
      interval: devicePollSeconds,
    };
  });

  openRoute(api, operations.finishDeviceLogin, async ({ body, request }) => {
    api.limits.countDevicePoll(request);
    const { key, ...minted } = keyOfDeviceCode(body.device_code);
    const finished = await finishDeviceLogin(db, digestOf(body.device_code), minted);
    if (finished === undefined) throw errors.deviceLoginNotFound();
    if (finished.status !== "allowed") return { status: finished.status, key: null };
    return { status: "allowed" as const, key: { ...apiKeyOf(finished.key, db.now()), key } };
  });

  const findWaiting = async ({ keyId }: Administrator, text: string): Promise<DeviceLoginRow> => {
    api.limits.admitUserCode(keyId);
    const login = await findDeviceLogin(db, text.toUpperCase().replace(/[\s-]/g, ""));
    if (login !== undefined) return login;
    api.limits.countWrongUserCode(keyId);
    throw errors.deviceLoginNotFound();
  };

  adminRoute(api, operations.getDeviceLogin, async ({ principal, query }) => {
    const { user_code, client_name, address, created_at, expires_at } = await findWaiting(principal, query.user_code);
    return {
      user_code: shown(user_code),
      client_name,
      address,
      created_at: created_at.toISOString(),
      expires_at: expires_at.toISOString(),
    };
  });

  adminRoute(api, operations.decideDeviceLogin, async ({ principal, body }) => {
    const login = await findWaiting(principal, body.user_code);
    const allowed = body.allow ? allowedBy(principal, body.scope ?? "workspace", db.now()) : null;
    if (!(await decideDeviceLogin(db, login, allowed, principal))) throw errors.deviceLoginNotFound();
  });

  adminRoute(api, operations.endDeviceLogin, async ({ principal: { holder, actor } }) => {
    const isOfLogin = !isMember(holder) && (holder.parent_id !== null || holder.member_id !== null);
    if (!isOfLogin) throw errors.forbidden();
    await revokeApiKey(db, { organizationId: null, workspaceId: null }, holder.id, actor);
    db.afterCommit(api.keyring.forget);
  });
}

/** Returns the key that a command line gets: the caller's role, and no wider scope than the caller's. */
function allowedBy(principal: Administrator, scope: KeyScope, now: Date): Allowed {
  const { holder, organizationId, workspaceId } = principal;
  if (!reaches(principal.scope, scope)) throw errors.scopeMissing(scope);
  if (scope === "workspace" && workspaceId === null) {
    throw errors.invalidSetting("scope", "'workspace' needs a workspace: name it in X-Tenant-Id.");
  }
  const endsAtMs = now.getTime() + deviceKeyDays * 86_400_000;
  const ownEndMs = isMember(holder) ? endsAtMs : (endOfKey(holder)?.getTime() ?? endsAtMs);
  return {
    organizationId,
    // The workspace of an operator's key is only its default.
    workspaceId: scope === "organization" ? null : workspaceId,
    role: holder.role,
    isOperator: scope === "installation",
    parentId: isMember(holder) ? null : holder.id,
    memberId: isMember(holder) ? holder.id : holder.member_id,
    expiresAt: new Date(Math.min(endsAtMs, ownEndMs)),
  };
}

const mintUserCode = () =>
  Array.from({ length: userCodeLength }, () => userCodeLetters[randomInt(userCodeLetters.length)]).join("");

const shown = (userCode: string) => `${userCode.slice(0, userCodeLength / 2)}-${userCode.slice(userCodeLength / 2)}`;
