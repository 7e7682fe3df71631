import type { FastifyRequest } from "fastify";
import { type OAuthCaller, type OAuthDeps, ownUserId } from "../../auth/oauth/deps.ts";
import { createProviderFetch } from "../../auth/oauth/outbound.ts";
import { ProviderExchanges } from "../../auth/oauth/provider-exchanges.ts";
import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import type { Api } from "../http/route.ts";
import { callbackUrlOf } from "./callback-url.ts";

/** Creates the OAuth service of one API. Work that it has started with a provider finishes before the API closes. */
export function createOAuth({ server, deps }: Api): OAuthDeps {
  const { db, sealer, logger, settings } = deps;
  const exchanges = new ProviderExchanges();
  server.addHook("onClose", () => exchanges.settle());
  return {
    db,
    sealer,
    logger,
    exchanges,
    owner: settings.owner,
    fetch: createProviderFetch(settings),
    callbackUrl: (provider) => callbackUrlOf(provider, settings),
    get sharedOrganizationId() {
      return settings.sharedAuthOrganizationId;
    },
  };
}

/** Maximum length of a user id. */
const userIdLengthMax = 256;

/**
 * Returns the caller and the user it acts for: `X-User-Id` of services with many users (contract 1.2), or the one user
 * of a service key.
 * @throws ApiError 422 for a user id that is too long; 403 when it differs from the user of the service key.
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

/** Returns the user whose tokens a request is about: the user that it names, otherwise the key itself. */
export function userOf(principal: Principal, request: FastifyRequest): string {
  const caller = oauthCallerOf(principal, request);
  return caller.namedUserId ?? ownUserId(caller);
}
