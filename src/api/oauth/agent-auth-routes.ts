import type { FastifyRequest } from "fastify";
import { ownUserId } from "../../auth/oauth/deps.ts";
import { mayCall } from "../../auth/permissions.ts";
import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import type { AgentCaller } from "../../contract/oauth/agent-auth.ts";
import { operations } from "../../contract/operations.ts";
import { admitsCallers } from "../../store/deployments/deployments.ts";
import { type Api, openRoute, route } from "../http/route.ts";
import { oauthCallerOf } from "./oauth.ts";

/**
 * Adds the routes that agent servers call to authenticate their callers (contract 7.4). Agent servers forward the
 * headers of their caller, so these routes check the caller's key. The agent server compares `tenant_id` in the
 * response with its own workspace.
 */
export function addAgentAuthRoutes(api: Api): void {
  route(api, operations.identifyAgentCaller, async ({ principal, request, query: { deployment_id: deploymentId } }) => {
    const caller = callerOf(principal, request);
    if (deploymentId === undefined) return caller;
    // An agent that could get a new assertion for an old one would hold its caller's rights indefinitely.
    if (principal.assertedFor !== undefined) throw errors.invalidToken();
    if (!(await admitsCallers(api.deps.db, deploymentId, principal.tenantId))) return caller;
    const { organizationId, tenantId, role, actor } = principal;
    return {
      ...caller,
      assertion: api.assertions.sign({ deploymentId, caller: actor, role, tenantId, organizationId }),
    };
  });
  route(api, operations.verifyAgentCaller, ({ principal, request }) => callerOf(principal, request));
  route(api, operations.getAgentEntitlement, ({ principal }) => entitlementOf(principal));
  route(api, operations.postAgentEntitlement, ({ principal }) => entitlementOf(principal));

  openRoute(api, operations.getCallerKeys, () => ({ keys: api.assertions.publicKeys() }));
  openRoute(api, operations.submitAgentUsage, () => undefined);
}

/** A key that may read users' tokens may also act for a user; any other key only acts for itself. */
function callerOf(principal: Principal, request: FastifyRequest): AgentCaller {
  const { organizationId, tenantId, namedUserId, actor } = oauthCallerOf(principal, request);
  const user_id = (mayCall(principal.role, "agent") ? namedUserId : null) ?? ownUserId({ actor });
  return { organization_id: organizationId, tenant_id: tenantId, user_id, user_email: null };
}

/** Every valid key may run agents here. */
function entitlementOf({ organizationId, tenantId }: Principal) {
  return { org_config: { org_id: organizationId }, organization_id: organizationId, tenant_id: tenantId };
}
