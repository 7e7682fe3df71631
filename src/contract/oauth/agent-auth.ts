import { type Static, Type } from "typebox";
import { freeObject, mapOf, nullable, uuid } from "../schema.ts";

/** Caller of an agent server, as the agent server gets it from the control plane (contract 7.4). */
export const AgentCaller = Type.Object(
  {
    organization_id: uuid(),
    tenant_id: uuid("The caller's workspace. The agent server compares it with its own."),
    user_id: Type.String({ description: "The user that the caller acts for, otherwise the key.", examples: ["alice"] }),
    user_email: nullable(Type.String()),
  },
  { $id: "AgentCaller" },
);
export type AgentCaller = Static<typeof AgentCaller>;

/** Entitlement that an agent server without a licence key requests when it starts. */
export const AgentEntitlement = Type.Object(
  {
    org_config: Type.Object({ org_id: uuid() }),
    organization_id: uuid(),
    tenant_id: uuid(),
  },
  { $id: "AgentEntitlement" },
);

/** Run counts that agent servers report every few minutes. Accepted but not stored, because the gateway counts requests. */
export const AgentUsage = Type.Object(
  {
    api_key: Type.Optional(nullable(Type.String())),
    from_timestamp: Type.Optional(nullable(Type.String())),
    to_timestamp: Type.Optional(nullable(Type.String())),
    tags: Type.Optional(nullable(freeObject())),
    measures: Type.Optional(nullable(mapOf(Type.Unknown()))),
    logs: Type.Optional(nullable(Type.Array(Type.Unknown()))),
  },
  { $id: "AgentUsage" },
);
