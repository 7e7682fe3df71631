import {
  AuthorizationResponseError,
  OperationProcessingError,
  RESPONSE_IS_NOT_CONFORM,
  ResponseBodyError,
  UnsupportedOperationError,
  WWWAuthenticateChallengeError,
} from "oauth4webapi";
import { OutboundFailure } from "../../integrations/outbound-fetch.ts";

/** Consequence of a failure for the token or the sign-in. */
export type FailureKind =
  /** The provider refused this code or token. A retry does not help, but a new consent may. */
  | "refused"
  /** The provider does not accept this client. Its settings have to be corrected. */
  | "misconfigured"
  /** The provider is slow, unreachable, or sends invalid responses. A later attempt may work. */
  | "unavailable";

/**
 * Failure of a provider. `reason` is a code, the message is a sentence for people. Neither contains text of the provider,
 * and there is no cause, because errors of the library carry codes, tokens and states.
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

/** Converts any error of an exchange with a provider into one that may be logged, stored and shown. */
export function failureOf(error: unknown): OAuthFailure {
  if (error instanceof OAuthFailure) return error;
  if (error instanceof OutboundFailure) {
    return error.reason === "refused"
      ? new OAuthFailure("misconfigured", "address_refused", `The address cannot be used: ${error.message}`)
      : new OAuthFailure("unavailable", "provider_unreachable", `The provider did not answer: ${error.message}`);
  }
  if (error instanceof ResponseBodyError || error instanceof AuthorizationResponseError)
    return providerError(error.error);
  if (error instanceof WWWAuthenticateChallengeError) return providerError("invalid_client");
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

/** Error codes of RFC 6749, 7009, 7591, 8707 and OpenID Connect, with their meaning. Other codes are not shown. */
const meanings: Readonly<Record<string, [FailureKind, string]>> = {
  access_denied: ["refused", "The user or the provider has denied the access."],
  consent_required: ["refused", "The provider requires a new consent of the user."],
  interaction_required: ["refused", "The provider requires an interaction with the user."],
  login_required: ["refused", "The provider requires the user to sign in again."],
  account_selection_required: ["refused", "The provider requires the user to choose an account."],
  invalid_grant: ["refused", "The provider no longer accepts the code or token. The user has to consent again."],
  invalid_client: ["misconfigured", "The provider does not accept client_id and client_secret."],
  unauthorized_client: ["misconfigured", "The provider does not allow this client to do that."],
  unsupported_grant_type: ["misconfigured", "The provider does not allow this client to do that."],
  unsupported_response_type: ["misconfigured", "The provider does not allow this client to do that."],
  redirect_uri_mismatch: [
    "misconfigured",
    "The redirect URI does not match the one that is registered at the provider.",
  ],
  invalid_redirect_uri: ["misconfigured", "The provider does not accept the redirect URI."],
  invalid_client_metadata: ["misconfigured", "The provider does not accept the metadata of the client."],
  invalid_request: ["misconfigured", "The provider does not understand the request."],
  invalid_scope: ["misconfigured", "The provider does not know or does not grant one of the scopes."],
  invalid_target: ["misconfigured", "The provider issues no tokens for this resource."],
  server_error: ["unavailable", "The provider has an internal error."],
  temporarily_unavailable: ["unavailable", "The provider is temporarily unavailable."],
  slow_down: ["unavailable", "The provider receives too many requests."],
};

/** Non-standard codes of some services with the same meaning. */
const aliases: Readonly<Record<string, string>> = {
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

/** Returns the failure for a provider's error code. An unknown code is not shown. */
function providerError(error: string | undefined): OAuthFailure {
  const code = aliases[error ?? ""] ?? error ?? "";
  const meaning = Object.hasOwn(meanings, code) ? meanings[code] : undefined;
  if (meaning === undefined) {
    return new OAuthFailure("refused", "provider_refused", "The provider refused without a standard reason.");
  }
  return new OAuthFailure(meaning[0], code, meaning[1]);
}
