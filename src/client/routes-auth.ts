import type { oauthProviderOperations } from "../contract/operations-oauth-providers.ts";
import type { Route } from "./routes.ts";

export type AuthOperations = typeof oauthProviderOperations;

const provider = "/v2/auth/providers/{provider_id}";

/** Verb and path of the OAuth service's operations; `routes.ts` says why they stand here once more. */
export const authRoutes: Record<keyof AuthOperations, Route> = {
  listOAuthProviders: { verb: "GET", path: "/v2/auth/providers" },
  listPlatformProviders: { verb: "GET", path: "/v2/auth/platform-providers" },
  listOAuthPresets: { verb: "GET", path: "/v2/auth/provider-presets" },
  createOAuthProvider: { verb: "POST", path: "/v2/auth/providers" },
  discoverMcpProvider: { verb: "POST", path: "/v2/auth/providers/mcp-discover" },
  getOAuthProvider: { verb: "GET", path: provider },
  patchOAuthProvider: { verb: "PATCH", path: provider },
  deleteOAuthProvider: { verb: "DELETE", path: provider },
};
