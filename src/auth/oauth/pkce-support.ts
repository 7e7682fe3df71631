import { allowInsecureRequests, customFetch, discoveryRequest, processDiscoveryResponse } from "oauth4webapi";
import type { ProviderFetch } from "./outbound.ts";

/**
 * Returns whether the metadata of a provider says that it does not support PKCE with S256. A server whose metadata omits the
 * methods supports none (RFC 8414, section 2). Without readable metadata the answer is false, and PKCE stays on.
 */
export async function lacksPkce(fetch: ProviderFetch, issuer: string): Promise<boolean> {
  const url = new URL(issuer);
  for (const algorithm of ["oauth2", "oidc"] as const) {
    try {
      const options = { [customFetch]: fetch, [allowInsecureRequests]: true, algorithm };
      const answer = await discoveryRequest(url, options);
      if (answer.status !== 200) continue;
      const { code_challenge_methods_supported: methods } = await processDiscoveryResponse(url, answer);
      return methods?.includes("S256") !== true;
    } catch {
      // Unreachable or broken metadata says nothing about PKCE.
    }
  }
  return false;
}
