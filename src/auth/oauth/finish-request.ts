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
import { dialogueWith, type OAuthCaller, type OAuthDeps } from "./deps.ts";
import { OAuthFailure } from "./failure.ts";
import { announceEnd } from "./request-ends.ts";
import { type Exchanged, exchangeCode } from "./token-endpoint.ts";
import { storeFirmly } from "./underway.ts";

/** What came to a redirect URI, and who brings it to us: the user's browser, or whoever the redirect URI belongs to. */
export interface Return {
  /** The provider that the address names: its chosen name, or the id of its row. */
  provider: string;
  parameters: URLSearchParams;
  by: "browser" | OAuthCaller;
}

/** How a sign-in ended, in words for the user. What is known of it is told only to who brought its state. */
export type RequestEnd =
  | { kind: "completed"; provider: ProviderRow; request: AuthRequestRow; tokenId: string; scopes: string[] }
  | { kind: "failed"; reason: string; message: string; provider?: ProviderRow; request?: AuthRequestRow };

/** Every way in which a state is no good reads the same: who guesses learns nothing. */
const unusable: RequestEnd = {
  kind: "failed",
  reason: "state_unusable",
  message: "This sign-in is not known here, has been used already, or has expired. Start it again.",
};

/**
 * Ends a sign-in: checks that the answer belongs to it, takes the code to the provider, and keeps the token for the
 * subject that asked. A state is good once, for its own provider and redirect URI, and for ten minutes.
 */
export async function finishRequest(deps: OAuthDeps, came: Return): Promise<RequestEnd> {
  const [state, second] = came.parameters.getAll("state");
  if (state === undefined || second !== undefined) return unusable;
  const request = await findRequestByState(deps.db, state);
  if (request === undefined || request.status !== "pending" || request.is_expired) return unusable;
  if (!mayFinish(request, came.by)) return unusable;
  const provider = await findProviderRow(deps.db, request.provider_row_id);
  if (provider === undefined || !(await claimAuthRequest(deps.db, request.id, deps.owner))) return unusable;
  // From here on the code is spent, whether the browser waits or not.
  return deps.underway.share(`request/${request.id}`, () => finishClaimed(deps, { came, request, provider, state }));
}

/**
 * The page at our own redirect URI finishes what was to end there. By a call, whoever started it finishes it, or who
 * speaks for its user; what an agent asked for itself, anybody of its workspace.
 */
function mayFinish(request: AuthRequestRow, by: Return["by"]): boolean {
  if (by === "browser") return request.is_own_callback;
  if (by.tenantId !== request.tenant_id) return false;
  if (by.namedUserId !== null && request.user_id !== null) return by.namedUserId === request.user_id;
  return request.user_id === null || by.actor === request.actor;
}

interface Claimed {
  came: Return;
  request: AuthRequestRow;
  provider: ProviderRow;
  state: string;
}

async function finishClaimed(deps: OAuthDeps, claimed: Claimed): Promise<RequestEnd> {
  const { request, provider } = claimed;
  try {
    checkAddressee(claimed);
    const { state, verifier } = openRequest(deps.sealer, request);
    const exchanged = await exchangeCode(dialogueWith(deps, provider), {
      parameters: claimed.came.parameters,
      ...{ state, verifier },
      redirectUri: request.redirect_uri,
      askedScopes: request.scopes,
    });
    const tokenId = await storeFirmly(() => keepExchanged(deps, claimed, exchanged));
    return { kind: "completed", provider, request, tokenId, scopes: exchanged.token.scopes };
  } catch (error) {
    const failure = error instanceof OAuthFailure ? error : faultOf(deps, request, error);
    await storeFirmly(() => noteFailure(deps, claimed, failure));
    return { kind: "failed", reason: failure.reason, message: failure.message, provider, request };
  } finally {
    announceEnd(request.id);
  }
}

/** @throws OAuthFailure when the answer came to another provider's address, or the provider is not what it was. */
function checkAddressee({ came, request, provider }: Claimed): void {
  if (came.provider !== provider.provider_id && came.provider !== provider.id) {
    const because = "The answer came to the address of another provider.";
    throw new OAuthFailure("refused", "issuer_mismatch", because);
  }
  if (request.token_url !== provider.token_url || request.client_id !== provider.client_id) {
    const because = "The provider's settings were changed during the sign-in. Start it again.";
    throw new OAuthFailure("refused", "provider_changed", because);
  }
}

const subjectOf = (request: AuthRequestRow): Subject => ({
  tenantId: request.tenant_id,
  userId: request.user_id,
  agentId: request.agent_id,
});

/** Token, request, connection and event are one commit: a crash before it leaves a sign-in that can be started again. */
function keepExchanged(
  deps: OAuthDeps,
  { request, provider }: Claimed,
  { token, workspaceToken }: Exchanged,
): Promise<string> {
  const { db, sealer } = deps;
  const subject = subjectOf(request);
  return db.transaction(async (trx) => {
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
  deps.logger.info(fields, "a sign-in failed");
}

/** A fault of ours: the log knows of which kind, and nothing of what was exchanged. */
function faultOf({ logger }: OAuthDeps, request: AuthRequestRow, error: unknown): OAuthFailure {
  const name = error instanceof Error ? error.name : typeof error;
  logger.error({ auth_id: request.id, error_name: name }, "a sign-in could not be finished");
  return new OAuthFailure("unavailable", "internal_error", "This server has a fault. Start the sign-in again.");
}
