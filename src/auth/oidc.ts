import { createHmac, timingSafeEqual } from "node:crypto";
import {
  type AuthorizationServer,
  allowInsecureRequests,
  authorizationCodeGrantRequest,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  calculatePKCECodeChallenge,
  customFetch,
  discoveryRequest,
  getValidatedIdTokenClaims,
  type IDToken,
  None,
  processAuthorizationCodeResponse,
  processDiscoveryResponse,
  processUserInfoResponse,
  userInfoRequest,
  validateApplicationLevelSignature,
  validateAuthResponse,
} from "oauth4webapi";
import { mailAddress } from "../domain/mail-address.ts";
import { isPlainText } from "../domain/plain-text.ts";
import { failureOf, OAuthFailure } from "./oauth/failure.ts";
import type { ProviderFetch } from "./oauth/outbound.ts";

/** Identity provider for the sign-in of people, as the operator configured it. */
export interface OidcSettings {
  issuer: string;
  clientId: string;
  /** null: a public client. */
  clientSecret: string | null;
  /** Label of the sign-in button. */
  name: string;
  /** Whether to accept email addresses that the provider does not report as verified. */
  trustsEmail: boolean;
}

/** Lifetime of the provider's metadata. A provider changes endpoints and keys rarely, and then with days of overlap. */
const metadataLifeMs = 3_600_000;

/**
 * Sign-in of people with OpenID Connect: authorization code with PKCE, state and nonce. All three are derived from one
 * secret in the browser that started the sign-in. So the server stores nothing, and no other browser can complete it.
 */
export class Oidc {
  readonly #settings: OidcSettings;
  readonly #fetch: ProviderFetch;
  #metadata: { until: number; read: Promise<AuthorizationServer> } | undefined;

  constructor(settings: OidcSettings, fetch: ProviderFetch) {
    this.#settings = settings;
    this.#fetch = fetch;
  }

  get name(): string {
    return this.#settings.name;
  }

  /**
   * Returns the URL to which to send the browser that holds `secret`.
   * @throws OAuthFailure when the provider does not answer, or answers incorrectly.
   */
  async begin(secret: string, redirectUri: string): Promise<string> {
    const server = await this.#server();
    const { verifier, state, nonce } = partsOf(secret);
    const url = new URL(server.authorization_endpoint ?? "");
    const parameters = {
      response_type: "code",
      client_id: this.#settings.clientId,
      redirect_uri: redirectUri,
      scope: "openid email",
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      state,
      nonce,
    };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return url.href;
  }

  /** Reports whether a response belongs to the sign-in that the holder of `secret` started. */
  isAnswerTo(secret: string, parameters: URLSearchParams): boolean {
    const [received = "", second] = parameters.getAll("state");
    const [given, expected] = [Buffer.from(received), Buffer.from(partsOf(secret).state)];
    return second === undefined && given.length === expected.length && timingSafeEqual(given, expected);
  }

  /**
   * Completes a sign-in and returns the person's email address in lower case.
   * @throws OAuthFailure when the response is an error or not from the provider, or the address is missing or unverified.
   */
  async finish(secret: string, parameters: URLSearchParams, redirectUri: string): Promise<string> {
    const server = await this.#server();
    try {
      const { verifier, state, nonce } = partsOf(secret);
      const client = { client_id: this.#settings.clientId };
      const options = this.#options();
      const checked = validateAuthResponse(server, client, parameters, state);
      const answer = await authorizationCodeGrantRequest(
        server,
        client,
        this.#authOf(server),
        checked,
        redirectUri,
        verifier,
        options,
      );
      const expected = { expectedNonce: nonce, requireIdToken: true };
      const issued = await processAuthorizationCodeResponse(server, client, answer, expected);
      await validateApplicationLevelSignature(server, answer, options);
      const claims = getValidatedIdTokenClaims(issued) as IDToken;
      // The library compares it only with several audiences (OpenID Connect Core, section 3.1.3.7).
      if (claims.azp !== undefined && claims.azp !== this.#settings.clientId) throw issuedToAnother();
      if (claims["email"] !== undefined || server.userinfo_endpoint === undefined) return this.#addressIn(claims);
      // Many providers put only those claims into the token that userinfo does not return (OpenID Connect Core, section 5.4).
      const userInfo = await userInfoRequest(server, client, issued.access_token, options);
      return this.#addressIn(await processUserInfoResponse(server, client, claims.sub, userInfo));
    } catch (error) {
      throw failureOf(error);
    }
  }

  /** Returns the email address. @throws OAuthFailure for an unverified one, which anyone could have claimed at the provider. */
  #addressIn(claims: Readonly<Record<string, unknown>>): string {
    const [email, isVerified] = [claims["email"], claims["email_verified"]];
    if (typeof email !== "string" || email === "" || !isPlainText(email)) {
      throw new OAuthFailure("refused", "email_missing", `${this.name} did not say what your email address is.`);
    }
    // Some providers send the boolean as text.
    if (isVerified === true || isVerified === "true" || this.#settings.trustsEmail) return mailAddress(email);
    throw new OAuthFailure("refused", "email_unverified", `${this.name} has not verified your address ${email}.`);
  }

  /** Returns the provider's metadata. A failure is not cached. */
  #server(): Promise<AuthorizationServer> {
    const known = this.#metadata;
    if (known !== undefined && known.until > performance.now()) return known.read;
    const made = { until: performance.now() + metadataLifeMs, read: this.#discover() };
    this.#metadata = made;
    made.read.catch(() => {
      if (this.#metadata === made) this.#metadata = undefined;
    });
    return made.read;
  }

  async #discover(): Promise<AuthorizationServer> {
    try {
      const issuer = new URL(this.#settings.issuer);
      const answer = await discoveryRequest(issuer, { ...this.#options(), algorithm: "oidc" });
      const server = await processDiscoveryResponse(issuer, answer);
      if (isPage(server.authorization_endpoint) && server.token_endpoint !== undefined) return server;
    } catch (error) {
      throw failureOf(error);
    }
    throw new OAuthFailure(
      "misconfigured",
      "no_endpoints",
      "The metadata of the provider contains no usable endpoints.",
    );
  }

  /** Prefers to send the secret in the form, because servers disagree on its encoding in a header. */
  #authOf({ token_endpoint_auth_methods_supported: methods }: AuthorizationServer): ClientAuth {
    const { clientSecret } = this.#settings;
    if (clientSecret === null) return None();
    const takesForm = Array.isArray(methods) && methods.includes("client_secret_post");
    return takesForm ? ClientSecretPost(clientSecret) : ClientSecretBasic(clientSecret);
  }

  #options() {
    return { [customFetch]: this.#fetch, [allowInsecureRequests]: true };
  }
}

/** Reports whether a browser can be sent to an address. The library checks only those that it calls itself. */
const isPage = (address: unknown) =>
  typeof address === "string" && /^https?:$/.test(URL.parse(address)?.protocol ?? "");

const issuedToAnother = () =>
  new OAuthFailure("refused", "azp", "The provider issued its token to another application than this server.");

/** Derives three values of 43 characters, the minimum of a verifier (RFC 7636, section 4.1). None reveals another, or the secret. */
function partsOf(secret: string): { verifier: string; state: string; nonce: string } {
  const derive = (part: string) => createHmac("sha256", secret).update(part).digest("base64url");
  return { verifier: derive("verifier"), state: derive("state"), nonce: derive("nonce") };
}
