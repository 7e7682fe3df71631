import { type Static, Type } from "typebox";
import { freeObject, mapOf, nullable, uuid } from "../schema.ts";

/** Who calls an agent server, as it asks the control plane (contract 7.4). */
export const AgentCaller = Type.Object(
  {
    organization_id: uuid(),
    tenant_id: uuid("The caller's workspace; the agent server compares it with its own."),
    user_id: Type.String({ description: "The user that the caller speaks for, else the key.", examples: ["alice"] }),
    user_email: nullable(Type.String()),
  },
  { $id: "AgentCaller" },
);
export type AgentCaller = Static<typeof AgentCaller>;

/** What an agent server without a licence key asks for when it starts. */
export const AgentEntitlement = Type.Object(
  {
    org_config: Type.Object({ org_id: uuid() }),
    organization_id: uuid(),
    tenant_id: uuid(),
  },
  { $id: "AgentEntitlement" },
);

/** Counts of runs that agent servers report every few minutes. Read, and not kept: the gateway counts requests itself. */
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
