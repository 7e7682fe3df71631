import type { agentAuthOperations } from "../../contract/oauth/operations-agent-auth.ts";
import type {
  agentConnectionOperations,
  oauthFlowOperations,
  oauthTokenOperations,
} from "../../contract/oauth/operations-auth.ts";
import type { oauthProviderOperations } from "../../contract/oauth/operations-oauth-providers.ts";
import type { Route } from "./routes.ts";

/** Pages for browsers are not among them. */
export type AuthOperations = Omit<
  typeof oauthProviderOperations &
    typeof oauthFlowOperations &
    typeof oauthTokenOperations &
    typeof agentConnectionOperations &
    typeof agentAuthOperations,
  "receiveCallback" | "receiveCallbackAlias" | "setupGithubApp"
>;

const provider = "/v2/auth/providers/{provider_id}";
const connections = "/v2/auth/agents/{agent_id}/connections";

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
  authenticate: { verb: "POST", path: "/v2/auth/authenticate" },
  waitForAuth: { verb: "GET", path: "/v2/auth/wait/{auth_id}" },
  finishAuthRequest: { verb: "POST", path: "/v2/auth/callback/{provider_id}" },
  listOAuthTokens: { verb: "GET", path: "/v2/auth/tokens" },
  deleteOAuthTokens: { verb: "DELETE", path: "/v2/auth/tokens" },
  hasOAuthToken: { verb: "GET", path: "/v2/auth/tokens/exists" },
  hasOAuthTokens: { verb: "POST", path: "/v2/auth/tokens/exists/batch" },
  importOAuthToken: { verb: "POST", path: "/v2/auth/tokens/import" },
  hasSlackWorkspaceToken: { verb: "GET", path: "/v2/auth/tokens/workspace/slack/exists" },
  deleteSlackWorkspaceToken: { verb: "DELETE", path: "/v2/auth/tokens/workspace/slack" },
  patchOAuthToken: { verb: "PATCH", path: "/v2/auth/tokens/{token_id}/metadata" },
  deleteOAuthToken: { verb: "DELETE", path: "/v2/auth/tokens/{token_id}" },
  listTokenEvents: { verb: "GET", path: "/v2/auth/token-events" },
  listAgentConnections: { verb: "GET", path: connections },
  createAgentConnection: { verb: "POST", path: connections },
  deleteAgentConnection: { verb: "DELETE", path: `${connections}/{connection_id}` },
  identifyAgentCaller: { verb: "GET", path: "/auth/public" },
  verifyAgentCaller: { verb: "GET", path: "/auth/verify" },
  getAgentEntitlement: { verb: "GET", path: "/auth" },
  postAgentEntitlement: { verb: "POST", path: "/auth" },
  submitAgentUsage: { verb: "POST", path: "/v1/metadata/submit" },
  putAgentToken: { verb: "POST", path: "/v2/auth/agents/{agent_id}/providers/{provider_id}/tokens" },
};
