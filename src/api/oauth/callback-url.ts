import type { ApiSettings } from "../deps.ts";

/**
 * This server's redirect URI of a provider. Always made of the configured address, never of what a request says it
 * called: it has to be the one that is registered, and no caller may choose where codes go.
 *
 * A client that we registered ourselves gets one that no other authorization server has, so that one server cannot pass
 * off another's code as its own answer (RFC 9700, section 4.4.2.2). Others have the one that people register by hand.
 */
export function callbackUrlOf(
  provider: { id: string; provider_id: string; is_dynamic_client: boolean },
  settings: Pick<ApiSettings, "ownUrl">,
): string {
  const name = provider.is_dynamic_client ? provider.id : provider.provider_id;
  return `${settings.ownUrl().replace(/\/+$/, "")}/v2/auth/callback/${encodeURIComponent(name)}`;
}
