import { type Static, Type } from "typebox";
import { freeObject, literals, mapOf, nullable, uuid } from "../schema.ts";

/** Caller of an agent server, as the agent server gets it from the control plane (contract 7.4). */
export const AgentCaller = Type.Object(
  {
    organization_id: uuid(),
    tenant_id: uuid("The caller's workspace. The agent server compares it with its own."),
    user_id: Type.String({ description: "The user that the caller acts for, otherwise the key.", examples: ["alice"] }),
    user_email: nullable(Type.String()),
    assertion: Type.Optional(
      Type.String({
        description:
          "JSON Web Token about the caller for the deployment of the query. Gateways pass it to the agent instead of the caller's key. Absent: the query names no deployment, or one that does not admit the caller.",
        examples: ["eyJhbGciOiJFZERTQSJ9.eyJhdWQiOiI2YjFmMGY2NCJ9.c2lnbmF0dXJl"],
      }),
    ),
  },
  { $id: "AgentCaller" },
);
export type AgentCaller = Static<typeof AgentCaller>;

export const IdentifyCallerQuery = Type.Object({
  deployment_id: Type.Optional(uuid("The deployment that the caller calls, for the assertion in the response.")),
});

/** Public keys of assertions as a JSON Web Key Set (RFC 7517). */
export const CallerKeys = Type.Object(
  {
    keys: Type.Array(
      Type.Object({
        kty: literals(["OKP"]),
        crv: literals(["Ed25519"]),
        alg: literals(["EdDSA"]),
        use: literals(["sig"]),
        kid: Type.String({ examples: ["0b7a4b64-1f0c-4a55-9c0d-51f7a9b2c3d4"] }),
        x: Type.String({ examples: ["11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"] }),
      }),
    ),
  },
  { $id: "CallerKeys" },
);
export type CallerKeys = Static<typeof CallerKeys>;

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
