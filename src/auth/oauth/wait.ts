import { type Waited, waitSecondsMax } from "../../contract/oauth/oauth-token.ts";
import { signInFinishTimeoutMs } from "../../domain/limits.ts";
import { type AuthRequestRow, findAuthRequest } from "../../store/oauth/oauth-requests.ts";
import { findToken, openToken } from "../../store/oauth/oauth-tokens.ts";
import type { OAuthCaller, OAuthDeps } from "./deps.ts";
import { waitUntilFinished } from "./request-ends.ts";

/** How long the token of a finished sign-in is returned (contract 9.4). */
const resultLifeMs = 10 * 60_000;

/** Polling interval for sign-ins that finish in other servers. */
const pollIntervalMs = 1_000;

/**
 * Waits until a sign-in has finished (contract 9.4). Returns `not_found` at once for one that is unknown, expired, failed
 * or started by another caller.
 * @param timeoutS clamped to 0..600; 0 returns the current status.
 */
export async function waitForRequest(
  deps: OAuthDeps,
  caller: OAuthCaller,
  options: { authId: string; timeoutS: number; signal: AbortSignal },
): Promise<Waited> {
  const { authId, signal } = options;
  if (!uuidForm.test(authId)) return notFound;
  const waitMs = Math.min(Math.max(options.timeoutS, 0), waitSecondsMax) * 1_000;
  const end = performance.now() + waitMs;
  for (;;) {
    const request = await findAuthRequest(deps.db, authId);
    if (request === undefined || !isOf(request, caller)) return notFound;
    const answer = await answerOf(deps, request);
    if (answer !== undefined) return answer;
    const leftMs = end - performance.now();
    if (leftMs <= 0 || signal.aborted) return { status: waitMs === 0 ? "pending" : "timeout", token: null };
    await waitUntilFinished(authId, Math.min(leftMs, pollIntervalMs), signal);
  }
}

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const notFound: Waited = { status: "not_found", token: null };

/** Reports whether the sign-in belongs to the caller's workspace and, if the caller names a user, to that user. */
function isOf(request: AuthRequestRow, { tenantId, namedUserId }: OAuthCaller): boolean {
  return request.tenant_id === tenantId && (namedUserId === null || namedUserId === request.user_id);
}

/** Returns undefined while the sign-in is in progress. */
async function answerOf({ db, sealer }: OAuthDeps, request: AuthRequestRow): Promise<Waited | undefined> {
  switch (request.status) {
    case "pending":
      return request.is_expired ? notFound : undefined;
    case "claimed":
      return request.status_age_ms > signInFinishTimeoutMs ? notFound : undefined;
    case "failed":
      return notFound;
    case "completed": {
      const isRecent = request.status_age_ms <= resultLifeMs && request.token_id !== null;
      const token = isRecent ? await findToken(db, request.tenant_id, request.token_id as string) : undefined;
      if (token === undefined || token.is_dead) return notFound;
      return { status: "completed", token: openToken(sealer, token).accessToken };
    }
  }
}
