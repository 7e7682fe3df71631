import { createHmac, timingSafeEqual } from "node:crypto";

/** Claims of a token that a service signed with the secret that it shares with this server (contract 1.2). */
export interface ServiceClaims {
  service: string;
  tenantId: string;
  /** The user that the service acts for. null: none, or the one that the request names. */
  userId: string | null;
}

/** Maximum difference between the clocks of servers that share a secret. */
const skewS = 60;

/**
 * Longest remaining life of a token. Services sign one for each call or for a few minutes, and a token cannot be revoked: one
 * that leaks must end soon.
 */
const serviceKeyLifeMaxS = 3_600;

/** A token is a few hundred bytes. Longer ones are refused unread. */
const tokenLengthMax = 4_096;

const textMax = 256;
const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Reads a JSON Web Token (RFC 7519) of the only accepted kind: HS256, with `sub`, `exp`, `tenant_id` and, if it acts for a
 * user, `user_id`. It must expire within an hour. `iat` and `nbf` are optional and must not be in the future. Signing and checking use Node's own crypto (decision 0049).
 * @returns undefined for every other token, without a reason.
 */
export function readServiceKey(token: string, secret: string, nowMs: number): ServiceClaims | undefined {
  const [head = "", body = "", signature = "", rest] = token.length > tokenLengthMax ? [] : token.split(".");
  if (rest !== undefined || !isSigned(`${head}.${body}`, signature, secret)) return undefined;
  const header = decoded(head);
  const claims = decoded(body);
  if (header?.["alg"] !== "HS256" || header["crit"] !== undefined || claims === undefined) return undefined;
  const { sub, exp, iat, nbf, tenant_id: tenantId, user_id: userId = null } = claims;
  const nowS = nowMs / 1_000;
  if (typeof exp !== "number" || exp + skewS <= nowS || exp - skewS > nowS + serviceKeyLifeMaxS) return undefined;
  if (![iat, nbf].every((from) => from === undefined || (typeof from === "number" && from - skewS <= nowS))) {
    return undefined;
  }
  if (!isShort(sub) || (userId !== null && !isShort(userId))) return undefined;
  if (typeof tenantId !== "string" || !uuidForm.test(tenantId)) return undefined;
  return { service: sub, tenantId: tenantId.toLowerCase(), userId };
}

function isSigned(text: string, signature: string, secret: string): boolean {
  const expected = createHmac("sha256", secret).update(text).digest();
  const given = Buffer.from(signature, "base64url");
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function decoded(part: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString());
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

const isShort = (value: unknown): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= textMax;
