import type { OidcSettings } from "../auth/oidc.ts";
import { flag, optional, type Read } from "./setting.ts";

/** Settings of the identity provider with which members sign in. */
export const oidcSettings = {
  oidcIssuer: optional(
    "PIERHEAD_OIDC_ISSUER",
    "none",
    "OpenID Connect provider with which members sign in to the console. Its redirect URI is `<public URL>/v2/session/oidc/callback`.",
  ),
  oidcClientId: optional("PIERHEAD_OIDC_CLIENT_ID", "none", "Client id registered with that provider."),
  oidcClientSecret: optional("PIERHEAD_OIDC_CLIENT_SECRET", "none: a public client", "Client secret of that client."),
  oidcName: optional("PIERHEAD_OIDC_NAME", "the provider's host", "Provider name on the sign-in button."),
  oidcTrustEmail: flag(
    "PIERHEAD_OIDC_TRUST_EMAIL",
    false,
    "Accepts email addresses that the provider does not report as verified (`email_verified`). Safe only if its users cannot choose their address.",
  ),
};

/**
 * Returns the configured identity provider, or null.
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
    throw new Error(`PIERHEAD_OIDC_ISSUER must be a URL such as https://id.example.org, got "${issuer}"`);
  }
  return { issuer, clientId, clientSecret, name: read.oidcName ?? url.host, trustsEmail: read.oidcTrustEmail };
}
