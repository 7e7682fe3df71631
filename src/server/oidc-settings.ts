import type { OidcSettings } from "../auth/oidc.ts";
import { flag, optional, type Read } from "./setting.ts";

/** Sign-in of people at an identity provider. */
export const oidcSettings = {
  oidcIssuer: optional(
    "PIERHEAD_OIDC_ISSUER",
    "none",
    "OpenID Connect provider that members sign in to the console with; its redirect URI is `<public URL>/v2/session/oidc/callback`.",
  ),
  oidcClientId: optional("PIERHEAD_OIDC_CLIENT_ID", "none", "Client id that is registered there."),
  oidcClientSecret: optional("PIERHEAD_OIDC_CLIENT_SECRET", "none: a public client", "Client secret of that client."),
  oidcName: optional("PIERHEAD_OIDC_NAME", "the provider's host", "What the button to sign in calls that provider."),
  oidcTrustEmail: flag(
    "PIERHEAD_OIDC_TRUST_EMAIL",
    false,
    "Takes addresses that the provider does not say it has verified (`email_verified`): only for one whose users cannot choose their address.",
  ),
};

/**
 * The identity provider that is set up; null: none.
 * @throws Error naming the variable that is missing or wrong.
 */
export function readOidc(read: Read<typeof oidcSettings>): OidcSettings | null {
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret = null } = read;
  if (issuer === undefined && clientId === undefined) return null;
  if (issuer === undefined || clientId === undefined) {
    throw new Error("sign-in of members needs both PIERHEAD_OIDC_ISSUER and PIERHEAD_OIDC_CLIENT_ID");
  }
  const url = URL.canParse(issuer) ? new URL(issuer) : null;
  if (url === null || !["https:", "http:"].includes(url.protocol) || url.search !== "" || url.hash !== "") {
    throw new Error(`PIERHEAD_OIDC_ISSUER must be such as https://id.example.org, got "${issuer}"`);
  }
  return { issuer, clientId, clientSecret, name: read.oidcName ?? url.host, trustsEmail: read.oidcTrustEmail };
}
