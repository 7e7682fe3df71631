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
import { failureOf, OAuthFailure } from "./oauth/failure.ts";
import type { ProviderFetch } from "./oauth/outbound.ts";

/** The identity provider that people sign in with, as the operator has set it up. */
export interface OidcSettings {
  issuer: string;
  clientId: string;
  /** null: a public client. */
  clientSecret: string | null;
  /** For the button. */
  name: string;
  /** Addresses count that the provider does not say it has verified. */
  trustsEmail: boolean;
}

/** Asked for again after this long: endpoints and keys of a provider change, and then with days of overlap. */
const metadataLifeMs = 3_600_000;

/**
 * Sign-in of people with OpenID Connect: authorization code with PKCE, state and nonce. All three are made of one secret
 * that the browser which began holds, so that nothing of a sign-in has to be kept, and nobody else's browser can end it.
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
   * Where to send the browser that holds `secret`.
   * @throws OAuthFailure when the provider does not answer, or not as one should.
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
      ...{ state, nonce },
    };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return url.href;
  }

  /** Does the answer belong to the sign-in that the holder of `secret` began? */
  isAnswerTo(secret: string, parameters: URLSearchParams): boolean {
    const [told = "", second] = parameters.getAll("state");
    const [given, wanted] = [Buffer.from(told), Buffer.from(partsOf(secret).state)];
    return second === undefined && given.length === wanted.length && timingSafeEqual(given, wanted);
  }

  /**
   * Turns the answer of the provider into the address of who signed in, in lower case.
   * @throws OAuthFailure: an error was answered, it is not the provider's, or not an address that counts.
   */
  async finish(secret: string, parameters: URLSearchParams, redirectUri: string): Promise<string> {
    const server = await this.#server();
    try {
      const { verifier, state, nonce } = partsOf(secret);
      const client = { client_id: this.#settings.clientId };
      const options = this.#options();
      const checked = validateAuthResponse(server, client, parameters, state);
      const answer = await authorizationCodeGrantRequest(
        ...([server, client, this.#authOf(server), checked, redirectUri, verifier, options] as const),
      );
      const expected = { expectedNonce: nonce, requireIdToken: true };
      const issued = await processAuthorizationCodeResponse(server, client, answer, expected);
      await validateApplicationLevelSignature(server, answer, options);
      const claims = getValidatedIdTokenClaims(issued) as IDToken;
      if (claims["email"] !== undefined || server.userinfo_endpoint === undefined) return this.#addressIn(claims);
      // Many put into the token only what nobody can ask for elsewhere (OpenID Connect Core, section 5.4).
      const told = await userInfoRequest(server, client, issued.access_token, options);
      return this.#addressIn(await processUserInfoResponse(server, client, claims.sub, told));
    } catch (error) {
      throw failureOf(error);
    }
  }

  /** An address that anybody can claim at the provider says nothing of who it is. */
  #addressIn(claims: Readonly<Record<string, unknown>>): string {
    const [email, isVerified] = [claims["email"], claims["email_verified"]];
    if (typeof email !== "string" || email === "") {
      throw new OAuthFailure("refused", "email_missing", `${this.name} did not say what your e-mail address is.`);
    }
    // Some write the truth value as text.
    if (isVerified === true || isVerified === "true" || this.#settings.trustsEmail) return mailAddress(email);
    throw new OAuthFailure("refused", "email_unverified", `${this.name} has not verified your address ${email}.`);
  }

  /** What the provider says of itself; a failure is not remembered. */
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
      if (server.authorization_endpoint !== undefined && server.token_endpoint !== undefined) return server;
    } catch (error) {
      throw failureOf(error);
    }
    throw new OAuthFailure("misconfigured", "no_endpoints", "The provider does not say where its endpoints are.");
  }

  /** In the form, where that is possible: how a secret is written into a header is read differently by many. */
  #authOf({ token_endpoint_auth_methods_supported: methods }: AuthorizationServer): ClientAuth {
    const { clientSecret } = this.#settings;
    if (clientSecret === null) return None();
    return methods?.includes("client_secret_post") ? ClientSecretPost(clientSecret) : ClientSecretBasic(clientSecret);
  }

  #options() {
    return { [customFetch]: this.#fetch, [allowInsecureRequests]: true };
  }
}

/** 43 characters each, as many as a verifier has to have (RFC 7636, section 4.1); none leads to another, or to the secret. */
function partsOf(secret: string): { verifier: string; state: string; nonce: string } {
  const made = (part: string) => createHmac("sha256", secret).update(part).digest("base64url");
  return { verifier: made("verifier"), state: made("state"), nonce: made("nonce") };
}
