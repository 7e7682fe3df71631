import { ApiError } from "../../contract/error.ts";
import type { Trx } from "../../store/engine/database.ts";
import { connectToken } from "../../store/oauth/agent-connections.ts";
import { recordTokenEvent, type TokenEvent } from "../../store/oauth/oauth-events.ts";
import { findProviderRow, type ProviderRow } from "../../store/oauth/oauth-providers.ts";
import {
  type AuthRequestRow,
  claimAuthRequest,
  completeAuthRequest,
  failAuthRequest,
  findRequestByState,
  openRequest,
} from "../../store/oauth/oauth-requests.ts";
import { type Subject, saveToken } from "../../store/oauth/oauth-tokens.ts";
import { type OAuthCaller, type OAuthDeps, providerClient } from "./deps.ts";
import { OAuthFailure } from "./failure.ts";
import { storeWithRetries } from "./provider-exchanges.ts";
import { notifyFinished } from "./request-ends.ts";
import { type Exchanged, exchangeCode } from "./token-endpoint.ts";

/** Response at a redirect URI, and who delivers it: the user's browser, or the owner of the redirect URI. */
export interface CallbackResponse {
  /** The provider in the address: its `provider_id`, or the id of its row. */
  provider: string;
  parameters: URLSearchParams;
  by: "browser" | OAuthCaller;
}

/** Result of a sign-in, with a message for the user. Details are shown only to the caller that has its state. */
export type RequestEnd =
  | { kind: "completed"; provider: ProviderRow; request: AuthRequestRow; tokenId: string; scopes: string[] }
  | { kind: "failed"; reason: string; message: string; provider?: ProviderRow; request?: AuthRequestRow };

/** All reasons why a state is unusable share this message, so that guessing reveals nothing. */
const unusable: RequestEnd = {
  kind: "failed",
  reason: "state_unusable",
  message: "This sign-in is unknown, has already been used, or has expired. Start it again.",
};

/**
 * Completes a sign-in: checks that the response belongs to it, exchanges the code, and stores the token for the subject. A
 * state is valid once, only for its own provider and redirect URI, and for ten minutes.
 */
export async function finishRequest(deps: OAuthDeps, callback: CallbackResponse): Promise<RequestEnd> {
  const [state, second] = callback.parameters.getAll("state");
  if (state === undefined || second !== undefined) return unusable;
  const request = await findRequestByState(deps.db, state);
  if (request === undefined || request.status !== "pending" || request.is_expired) return unusable;
  if (!mayFinish(request, callback.by)) return unusable;
  const provider = await findProviderRow(deps.db, request.provider_row_id);
  if (provider === undefined || !(await claimAuthRequest(deps.db, request.id, deps.owner))) return unusable;
  // The code is used up from here on, so the exchange runs to its end even if the browser leaves.
  return deps.exchanges.share(`request/${request.id}`, () =>
    finishClaimed(deps, { callback, request, provider, state }),
  );
}

/**
 * Reports whether this caller may complete the sign-in. The page at our own redirect URI completes sign-ins that end there.
 * By a call, the caller that started it or one that acts for its user may complete it. If an agent requested its own token,
 * any caller of the workspace may.
 */
function mayFinish(request: AuthRequestRow, by: CallbackResponse["by"]): boolean {
  if (by === "browser") return request.is_own_callback;
  if (by.tenantId !== request.tenant_id) return false;
  if (by.namedUserId !== null && request.user_id !== null) return by.namedUserId === request.user_id;
  return request.user_id === null || by.actor === request.actor;
}

interface Claimed {
  callback: CallbackResponse;
  request: AuthRequestRow;
  provider: ProviderRow;
  state: string;
}

async function finishClaimed(deps: OAuthDeps, claimed: Claimed): Promise<RequestEnd> {
  const { request, provider } = claimed;
  try {
    checkAddressee(claimed, deps.callbackUrl(provider));
    const { state, verifier } = openRequest(deps.sealer, request);
    const exchanged = await exchangeCode(providerClient(deps, provider), {
      parameters: claimed.callback.parameters,
      state,
      verifier,
      redirectUri: request.redirect_uri,
      askedScopes: request.scopes,
    });
    const tokenId = await storeWithRetries(() => keepExchanged(deps, claimed, exchanged));
    return { kind: "completed", provider, request, tokenId, scopes: exchanged.token.scopes };
  } catch (error) {
    const failure = error instanceof OAuthFailure ? error : faultOf(deps, request, error);
    await storeWithRetries(() => noteFailure(deps, claimed, failure));
    return { kind: "failed", reason: failure.reason, message: failure.message, provider, request };
  } finally {
    notifyFinished(request.id);
  }
}

/**
 * A browser must arrive at the very redirect URI of its sign-in. An application names the provider.
 * @throws OAuthFailure when the response came to another provider's address, or the provider was changed.
 */
function checkAddressee({ callback, request, provider }: Claimed, own: string): void {
  const isAddressed =
    callback.by === "browser"
      ? request.redirect_uri.endsWith(`/${encodeURIComponent(callback.provider)}`)
      : callback.provider === provider.provider_id || callback.provider === provider.id;
  if (!isAddressed) {
    const because = "The response arrived at the address of another provider.";
    throw new OAuthFailure("refused", "issuer_mismatch", because);
  }
  const isMoved = callback.by === "browser" && request.redirect_uri.split("/").at(-1) !== own.split("/").at(-1);
  if (isMoved || request.token_url !== provider.token_url || request.client_id !== provider.client_id) {
    const because = "The provider's settings were changed during the sign-in. Start it again.";
    throw new OAuthFailure("refused", "provider_changed", because);
  }
}

const subjectOf = (request: AuthRequestRow): Subject => ({
  tenantId: request.tenant_id,
  userId: request.user_id,
  agentId: request.agent_id,
});

/** Stores token, request, connection and event in one transaction. A crash before it leaves a sign-in that can be restarted. */
function keepExchanged(
  deps: OAuthDeps,
  { request, provider }: Claimed,
  { token, workspaceToken }: Exchanged,
): Promise<string> {
  const { db, sealer } = deps;
  const subject = subjectOf(request);
  const act = async (trx: Trx) => {
    const { is_default: isDefault, replaces_token_id: replacesTokenId } = request;
    const tokenId = await saveToken(trx, sealer, { subject, provider, token, isDefault, replacesTokenId });
    if (!(await completeAuthRequest(trx, request.id, tokenId))) throw lateFailure();
    if (subject.userId === null && subject.agentId !== null) {
      const { tenantId, agentId } = subject;
      await connectToken(trx, request.actor, { tenantId, agentId, tokenId, createdBy: request.actor });
    }
    if (workspaceToken !== null) {
      const whole = { tenantId: subject.tenantId, userId: null, agentId: null };
      await saveToken(trx, sealer, {
        subject: whole,
        provider,
        token: workspaceToken,
        isDefault: true,
        replacesTokenId: null,
      });
    }
    const { scopes, accountLabel } = token;
    const note: TokenEvent = {
      type: "connected",
      source: "callback",
      providerId: provider.provider_id,
      tokenId,
      scopes,
      accountLabel,
    };
    await recordTokenEvent(trx, subject, note);
    return tokenId;
  };
  return db.transaction(act).catch((error: unknown) => {
    const isFull = error instanceof ApiError && error.code === "tooManyOAuthTokens";
    throw isFull ? new OAuthFailure("refused", "too_many_tokens", error.message) : error;
  });
}

const lateFailure = () => new OAuthFailure("refused", "took_too_long", "The sign-in took too long. Start it again.");

async function noteFailure(deps: OAuthDeps, { request, provider }: Claimed, failure: OAuthFailure): Promise<void> {
  await deps.db.transaction(async (trx) => {
    if (!(await failAuthRequest(trx, request.id, failure.reason))) return;
    await recordTokenEvent(trx, subjectOf(request), {
      type: "flow_failed",
      source: "callback",
      providerId: provider.provider_id,
      reason: failure.reason,
      detail: failure.message,
      scopes: request.scopes,
    });
  });
  const fields = { auth_id: request.id, provider_id: provider.provider_id, reason: failure.reason };
  deps.logger.info(fields, "sign-in failed");
}

/** Logs an internal error without any data of the exchange. */
function faultOf({ logger }: OAuthDeps, request: AuthRequestRow, error: unknown): OAuthFailure {
  const name = error instanceof Error ? error.name : typeof error;
  logger.error({ auth_id: request.id, error_name: name }, "sign-in could not be completed");
  return new OAuthFailure(
    "unavailable",
    "internal_error",
    "This server has an internal error. Start the sign-in again.",
  );
}
