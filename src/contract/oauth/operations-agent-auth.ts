import { operation } from "../operation.ts";
import { AgentCaller, AgentEntitlement, AgentUsage, CallerKeys, IdentifyCallerQuery } from "./agent-auth.ts";

const tag = "Agent servers";

/** Calls of agent servers about their callers (contract 7.4). They carry the caller's headers. */
export const agentAuthOperations = {
  getCallerKeys: operation("getCallerKeys", {
    operationId: "caller_keys",
    tag,
    summary: "List the public keys that verify assertions about the callers of agents",
    response: { status: 200, schema: CallerKeys },
    role: "none",
  }),
  identifyAgentCaller: operation("identifyAgentCaller", {
    operationId: "auth_public",
    tag,
    summary: "Identify the caller of an agent by its key, or by the assertion that a gateway passed on",
    query: IdentifyCallerQuery,
    response: { status: 200, schema: AgentCaller },
    role: "caller",
  }),
  verifyAgentCaller: operation("verifyAgentCaller", {
    operationId: "auth_verify",
    tag,
    summary: "Identify the caller of an agent that other workspaces may call, too",
    response: { status: 200, schema: AgentCaller },
    role: "caller",
  }),
  getAgentEntitlement: operation("getAgentEntitlement", {
    operationId: "auth_get",
    tag,
    summary: "Check whether an agent server may run; called when it starts",
    response: { status: 200, schema: AgentEntitlement },
    role: "caller",
  }),
  postAgentEntitlement: operation("postAgentEntitlement", {
    operationId: "auth_post",
    tag,
    summary: "Check whether an agent server may run, as a POST",
    response: { status: 200, schema: AgentEntitlement },
    role: "caller",
  }),
  submitAgentUsage: operation("submitAgentUsage", {
    operationId: "submit_metadata_v1_metadata_submit_post",
    tag,
    summary: "Accept the usage counts of an agent server without storing them",
    body: AgentUsage,
    response: { status: 204, schema: null },
    role: "none",
  }),
};
