import type { ApiSettings } from "../deps.ts";

/**
 * Returns this server's redirect URI of a provider. It is built from the configured address, never from the request: it
 * must equal the registered one, and no caller may choose where codes are sent.
 *
 * A client that Pierhead registered itself gets a URI of its own, so that one authorization server cannot pass off
 * another server's code as its own (RFC 9700, section 4.4.2.2). So does a provider whose name an earlier one of another
 * organization has at another server or for the same public client. Other clients use the URI that people register by hand.
 */
export function callbackUrlOf(
  provider: { id: string; provider_id: string; is_dynamic_client: boolean; has_own_callback: boolean },
  settings: Pick<ApiSettings, "ownUrl">,
): string {
  const name = provider.is_dynamic_client || provider.has_own_callback ? provider.id : provider.provider_id;
  return `${settings.ownUrl().replace(/\/+$/, "")}/v2/auth/callback/${encodeURIComponent(name)}`;
}
