import type { ApiSettings } from "../deps.ts";

/**
 * Returns the URL where members begin to sign in to the console. It uses the public address, as the redirect URI does:
 * the browser sends the sign-in cookie only to the host that set it.
 */
export const signInUrlOf = ({ ownUrl }: Pick<ApiSettings, "ownUrl">) =>
  `${ownUrl().replace(/\/+$/, "")}/v2/session/oidc`;

/** Returns the URL to which the identity provider sends members back. */
export const signInCallbackOf = (settings: Pick<ApiSettings, "ownUrl">) => `${signInUrlOf(settings)}/callback`;
