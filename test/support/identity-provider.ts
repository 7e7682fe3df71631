import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { type OAuthServer, startOAuthServer } from "./oauth-server.ts";

/** Claims that the provider makes about the user. Omitted fields have the values of an honest provider. */
export interface UserClaims {
  email?: string | undefined;
  email_verified?: unknown;
  /** Claims that override those of the token. */
  claims?: Record<string, unknown>;
  /** Signs with a wrong key. */
  isForged?: boolean;
  /** Does not sign the token. */
  isUnsigned?: boolean;
  /** Returns the email address at the userinfo endpoint and not in the token. */
  isInUserinfo?: boolean;
}

export interface IdentityProvider extends AsyncDisposable {
  issuer: string;
  server: OAuthServer;
  /** Claims for the next sign-ins. */
  userClaims: UserClaims;
  isDown: boolean;
  /** Handles the browser's request like the sign-in page. @returns the parameters for the redirect URI. */
  signIn(location: string): { redirectUri: string; parameters: URLSearchParams };
}

const clientId = "pierhead";

/** Starts an OpenID provider on loopback that makes the claims a test sets. test/auth uses a certified provider. */
export async function startIdentityProvider(): Promise<IdentityProvider> {
  const server = await startOAuthServer();
  const own = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const other = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const issuer = server.url;
  const asked = new Map<string, { nonce: string; challenge: string }>();
  const made: IdentityProvider = {
    ...{ issuer, server, userClaims: {}, isDown: false },
    signIn(location) {
      const url = new URL(location);
      const code = `code-${asked.size + 1}`;
      const [nonce, challenge] = ["nonce", "code_challenge"].map((name) => url.searchParams.get(name) ?? "");
      asked.set(code, { nonce: nonce ?? "", challenge: challenge ?? "" });
      const state = url.searchParams.get("state") ?? "";
      return {
        redirectUri: url.searchParams.get("redirect_uri") ?? "",
        parameters: new URLSearchParams({ code, state, iss: issuer }),
      };
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };

  function tokensFor(form: Record<string, string>) {
    const { code = "", code_verifier: verifier = "" } = form;
    const request = asked.get(code);
    asked.delete(code);
    const challenge = createHash("sha256").update(verifier).digest("base64url");
    if (request === undefined || request.challenge !== challenge) return null;
    const { userClaims } = made;
    const nowS = Math.floor(Date.now() / 1_000);
    const claims = {
      ...{ iss: issuer, aud: clientId, sub: "user-1", iat: nowS, exp: nowS + 300, nonce: request.nonce },
      ...(userClaims.isInUserinfo !== true && personOf(userClaims)),
      ...userClaims.claims,
    };
    const key = userClaims.isUnsigned ? null : userClaims.isForged ? other.privateKey : own.privateKey;
    return { access_token: "access", token_type: "Bearer", expires_in: 60, id_token: jwtOf(claims, key) };
  }

  server.answer = ({ path, form }) => {
    if (made.isDown) return { status: 503 };
    if (path === "/token") {
      const json = tokensFor(form);
      return json === null ? { status: 400, json: { error: "invalid_grant" } } : { json };
    }
    if (path === "/me") return { json: { sub: "user-1", ...personOf(made.userClaims) } };
    if (path === "/jwks") {
      return { json: { keys: [{ ...own.publicKey.export({ format: "jwk" }), kid: "1", alg: "RS256", use: "sig" }] } };
    }
    const at = (name: string) => `${issuer}/${name}`;
    return {
      json: {
        ...{ issuer, authorization_endpoint: at("auth"), token_endpoint: at("token"), jwks_uri: at("jwks") },
        ...{ userinfo_endpoint: at("me"), token_endpoint_auth_methods_supported: ["client_secret_post"] },
      },
    };
  };
  return made;
}

const personOf = ({ email, email_verified }: UserClaims) => ({
  ...(email !== undefined && { email }),
  ...(email_verified !== undefined && { email_verified }),
});

function jwtOf(claims: object, key: KeyObject | null): string {
  const text = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const signed = `${text({ alg: key === null ? "none" : "RS256", kid: "1" })}.${text(claims)}`;
  return `${signed}.${key === null ? "" : sign("sha256", Buffer.from(signed), key).toString("base64url")}`;
}
