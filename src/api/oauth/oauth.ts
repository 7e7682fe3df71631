import type { FastifyRequest } from "fastify";
import { type OAuthCaller, type OAuthDeps, ownUserId } from "../../auth/oauth/deps.ts";
import { createProviderFetch } from "../../auth/oauth/outbound.ts";
import { Underway } from "../../auth/oauth/underway.ts";
import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import type { Api } from "../http/route.ts";
import { callbackUrlOf } from "./callback-url.ts";

/** The OAuth service of one API. What it has begun with a provider ends before the API is closed. */
export function createOAuth({ server, deps }: Api): OAuthDeps {
  const { db, sealer, logger, settings } = deps;
  const underway = new Underway();
  server.addHook("onClose", () => underway.settle());
  return {
    ...{ db, sealer, logger, underway },
    owner: settings.owner,
    fetch: createProviderFetch(settings),
    callbackUrl: (provider) => callbackUrlOf(provider, settings),
    get sharedOrganizationId() {
      return settings.sharedAuthOrganizationId;
    },
  };
}

/** Longest id of a user. */
const userIdLengthMax = 256;

/**
 * Who asks, and for which user: `X-User-Id` of services that speak for many (contract 1.2), or the one user of a service
 * key.
 * @throws ApiError 422 for a name that is too long; 403 for another user than that of the service key.
 */
export function oauthCallerOf(principal: Principal, request: FastifyRequest): OAuthCaller {
  const { organizationId, tenantId, actor, userId } = principal;
  const header = request.headers["x-user-id"];
  const namedUserId = (Array.isArray(header) ? header.join(",") : (header ?? "")).trim() || null;
  if (namedUserId !== null && namedUserId.length > userIdLengthMax) {
    const msg = `String should have at most ${userIdLengthMax} characters`;
    const ctx = { max_length: userIdLengthMax };
    throw errors.invalidRequest([
      { type: "string_too_long", loc: ["header", "x-user-id"], msg, input: namedUserId.slice(0, 64), ctx },
    ]);
  }
  if (userId !== null && namedUserId !== null && namedUserId !== userId) throw errors.forbidden();
  return { organizationId, tenantId, actor, namedUserId: namedUserId ?? userId, onlyUserId: userId };
}

/** Whose tokens a request is about: those of the user that it names, else of the key itself. */
export function userOf(principal: Principal, request: FastifyRequest): string {
  const caller = oauthCallerOf(principal, request);
  return caller.namedUserId ?? ownUserId(caller);
}
