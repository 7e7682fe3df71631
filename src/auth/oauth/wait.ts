import { type Waited, waitSecondsMax } from "../../contract/oauth/oauth-token.ts";
import { signInFinishTimeoutMs } from "../../domain/limits.ts";
import { type AuthRequestRow, findAuthRequest } from "../../store/oauth/oauth-requests.ts";
import { findToken, openToken } from "../../store/oauth/oauth-tokens.ts";
import type { OAuthCaller, OAuthDeps } from "./deps.ts";
import { nextEnd } from "./request-ends.ts";

/** Answers of a sign-in that has ended are given for so long (contract 9.4). */
const answerLifeMs = 10 * 60_000;

/** Ends in other servers are seen this much later at most. */
const lookIntervalMs = 1_000;

/**
 * Waits until a sign-in has ended (contract 9.4). One that is unknown, expired, failed or somebody else's is
 * `not_found`, at once.
 * @param timeoutS clamped to 0..600; 0 only looks.
 */
export async function waitForRequest(
  deps: OAuthDeps,
  caller: OAuthCaller,
  asked: { authId: string; timeoutS: number; signal: AbortSignal },
): Promise<Waited> {
  const { authId, signal } = asked;
  if (!uuidForm.test(authId)) return notFound;
  const waitMs = Math.min(Math.max(asked.timeoutS, 0), waitSecondsMax) * 1_000;
  const end = performance.now() + waitMs;
  for (;;) {
    const request = await findAuthRequest(deps.db, authId);
    if (request === undefined || !isOf(request, caller)) return notFound;
    const answer = await answerOf(deps, request);
    if (answer !== undefined) return answer;
    const leftMs = end - performance.now();
    if (leftMs <= 0 || signal.aborted) return { status: waitMs === 0 ? "pending" : "timeout", token: null };
    await nextEnd(authId, Math.min(leftMs, lookIntervalMs), signal);
  }
}

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const notFound: Waited = { status: "not_found", token: null };

/** Of the caller's workspace; and of his user, if he speaks for one. */
function isOf(request: AuthRequestRow, { tenantId, namedUserId }: OAuthCaller): boolean {
  return request.tenant_id === tenantId && (namedUserId === null || namedUserId === request.user_id);
}

/** undefined: it is still under way. */
async function answerOf({ db, sealer }: OAuthDeps, request: AuthRequestRow): Promise<Waited | undefined> {
  switch (request.status) {
    case "pending":
      return request.is_expired ? notFound : undefined;
    case "claimed":
      return request.status_age_ms > signInFinishTimeoutMs ? notFound : undefined;
    case "failed":
      return notFound;
    case "completed": {
      const isRecent = request.status_age_ms <= answerLifeMs && request.token_id !== null;
      const token = isRecent ? await findToken(db, request.tenant_id, request.token_id as string) : undefined;
      if (token === undefined || token.is_dead) return notFound;
      return { status: "completed", token: openToken(sealer, token).accessToken };
    }
  }
}
