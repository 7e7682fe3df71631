import { operation } from "../operation.ts";
import { AgentCaller, AgentEntitlement, AgentUsage } from "./agent-auth.ts";

const tag = "Agent servers";

/** What agent servers ask the control plane about those who call them (contract 7.4), with the headers of the caller. */
export const agentAuthOperations = {
  identifyAgentCaller: operation("identifyAgentCaller", {
    operationId: "auth_public",
    tag,
    summary: "Who is it that calls an agent with this key?",
    response: { status: 200, schema: AgentCaller },
    role: "caller",
  }),
  verifyAgentCaller: operation("verifyAgentCaller", {
    operationId: "auth_verify",
    tag,
    summary: "The same, for agents that people of other workspaces may call",
    response: { status: 200, schema: AgentCaller },
    role: "caller",
  }),
  getAgentEntitlement: operation("getAgentEntitlement", {
    operationId: "auth_get",
    tag,
    summary: "May this agent server run? Asked at its start",
    response: { status: 200, schema: AgentEntitlement },
    role: "caller",
  }),
  postAgentEntitlement: operation("postAgentEntitlement", {
    operationId: "auth_post",
    tag,
    summary: "The same as a POST",
    response: { status: 200, schema: AgentEntitlement },
    role: "caller",
  }),
  submitAgentUsage: operation("submitAgentUsage", {
    operationId: "submit_metadata_v1_metadata_submit_post",
    tag,
    summary: "Take what an agent server counted; nothing of it is kept",
    body: AgentUsage,
    response: { status: 204, schema: null },
    role: "none",
  }),
};
