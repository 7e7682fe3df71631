import {
  AuthorizationResponseError,
  OperationProcessingError,
  RESPONSE_IS_NOT_CONFORM,
  ResponseBodyError,
  UnsupportedOperationError,
  WWWAuthenticateChallengeError,
} from "oauth4webapi";
import { OutboundFailure } from "../../integrations/outbound-fetch.ts";

/** What a failure means for the token or the sign-in it happened to. */
export type FailureKind =
  /** The provider said no to this very code or token: trying again does not help, consenting again may. */
  | "refused"
  /** The provider does not know this client, or not so: somebody has to mend its settings. */
  | "misconfigured"
  /** Slow, away, or answering nonsense: later it may work. */
  | "unavailable";

/**
 * Why a provider gave nothing. `reason` is a code, the message a sentence for people. Neither holds what the provider
 * wrote, nor is there a cause: errors of the library carry codes, tokens and states with them.
 */
export class OAuthFailure extends Error {
  override readonly name = "OAuthFailure";
  readonly kind: FailureKind;
  readonly reason: string;

  constructor(kind: FailureKind, reason: string, message: string) {
    super(message);
    this.kind = kind;
    this.reason = reason;
  }
}

/** Makes any error of a conversation with a provider one that may be logged, stored and shown. */
export function failureOf(error: unknown): OAuthFailure {
  if (error instanceof OAuthFailure) return error;
  if (error instanceof OutboundFailure) {
    return error.reason === "refused"
      ? new OAuthFailure("misconfigured", "address_refused", `The address cannot be used: ${error.message}`)
      : new OAuthFailure("unavailable", "provider_unreachable", `There was no answer: ${error.message}`);
  }
  if (error instanceof ResponseBodyError || error instanceof AuthorizationResponseError) return toldError(error.error);
  if (error instanceof WWWAuthenticateChallengeError) return toldError("invalid_client");
  if (error instanceof OperationProcessingError && error.code === RESPONSE_IS_NOT_CONFORM) {
    const status = (error.cause as Partial<Response> | undefined)?.status ?? 0;
    return new OAuthFailure("unavailable", "provider_error", `The provider answered with status ${status}.`);
  }
  if (error instanceof OperationProcessingError || error instanceof UnsupportedOperationError) {
    return new OAuthFailure(
      "unavailable",
      "invalid_response",
      "The provider's answer is not what the standard asks for.",
    );
  }
  throw error;
}

/** Codes of RFC 6749, 7009, 7591, 8707 and OpenID Connect, with what they mean to us. Others are not repeated. */
const meanings: Readonly<Record<string, [FailureKind, string]>> = {
  access_denied: ["refused", "The user, or the provider, has denied the access."],
  consent_required: ["refused", "The provider wants the user's consent once more."],
  interaction_required: ["refused", "The provider has something to ask the user."],
  login_required: ["refused", "The provider wants the user to sign in once more."],
  account_selection_required: ["refused", "The provider wants the user to choose an account."],
  invalid_grant: ["refused", "The provider no longer accepts what it gave out; the user has to consent again."],
  invalid_client: ["misconfigured", "The provider does not accept client_id and client_secret."],
  unauthorized_client: ["misconfigured", "The provider does not let this client do that."],
  unsupported_grant_type: ["misconfigured", "The provider does not let this client do that."],
  unsupported_response_type: ["misconfigured", "The provider does not let this client do that."],
  redirect_uri_mismatch: ["misconfigured", "The redirect URI is not the one that is registered at the provider."],
  invalid_redirect_uri: ["misconfigured", "The provider does not accept the redirect URI."],
  invalid_client_metadata: ["misconfigured", "The provider does not accept what the client said of itself."],
  invalid_request: ["misconfigured", "The provider does not understand the request."],
  invalid_scope: ["misconfigured", "The provider does not know, or not give, one of the scopes."],
  invalid_target: ["misconfigured", "The provider does not give tokens for this resource."],
  server_error: ["unavailable", "The provider has a fault."],
  temporarily_unavailable: ["unavailable", "The provider cannot answer at the moment."],
  slow_down: ["unavailable", "The provider is asked too often."],
};

/** Other names of the same, as some services have them. */
const otherNames: Readonly<Record<string, string>> = {
  bad_verification_code: "invalid_grant", // GitHub
  bad_refresh_token: "invalid_grant",
  incorrect_client_credentials: "invalid_client",
  invalid_code: "invalid_grant", // Slack
  code_already_used: "invalid_grant",
  invalid_refresh_token: "invalid_grant",
  token_revoked: "invalid_grant",
  bad_client_secret: "invalid_client",
  invalid_client_id: "invalid_client",
  bad_redirect_uri: "redirect_uri_mismatch",
};

/** A refusal as the provider named it, if that is a name that is known. */
export function toldError(error: string | undefined): OAuthFailure {
  const code = otherNames[error ?? ""] ?? error ?? "";
  const meaning = Object.hasOwn(meanings, code) ? meanings[code] : undefined;
  if (meaning === undefined) {
    return new OAuthFailure("refused", "provider_refused", "The provider refused, for a reason of its own.");
  }
  return new OAuthFailure(meaning[0], code, meaning[1]);
}
