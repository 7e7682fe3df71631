import type { FastifyRequest } from "fastify";
import { ownUserId } from "../../auth/oauth/deps.ts";
import { mayCall } from "../../auth/permissions.ts";
import type { Principal } from "../../auth/principal.ts";
import type { AgentCaller } from "../../contract/oauth/agent-auth.ts";
import { operations } from "../../contract/operations.ts";
import { type Api, openRoute, route } from "../http/route.ts";
import { oauthCallerOf } from "./oauth.ts";

/**
 * Questions of agent servers (contract 7.4). Each comes with the headers of whoever called the agent, so it is the
 * caller's key that is checked: one of another workspace is told apart by the `tenant_id` of the answer.
 */
export function addAgentAuthRoutes(api: Api): void {
  route(api, operations.identifyAgentCaller, ({ principal, request }) => callerOf(principal, request));
  route(api, operations.verifyAgentCaller, ({ principal, request }) => callerOf(principal, request));
  route(api, operations.getAgentEntitlement, ({ principal }) => entitlementOf(principal));
  route(api, operations.postAgentEntitlement, ({ principal }) => entitlementOf(principal));

  openRoute(api, operations.submitAgentUsage, () => undefined);
}

/** Who may get the tokens of users may speak for them; any other key is nobody but itself, whatever it says. */
function callerOf(principal: Principal, request: FastifyRequest): AgentCaller {
  const { organizationId, tenantId, namedUserId, actor } = oauthCallerOf(principal, request);
  const user_id = (mayCall(principal.role, "agent") ? namedUserId : null) ?? ownUserId({ actor });
  return { organization_id: organizationId, tenant_id: tenantId, user_id, user_email: null };
}

/** Everybody whose key is good may run agents here. */
function entitlementOf({ organizationId, tenantId }: Principal) {
  return { org_config: { org_id: organizationId }, organization_id: organizationId, tenant_id: tenantId };
}
