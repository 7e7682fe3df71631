import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { given, literals, nullable, timestamp, uuid } from "../schema.ts";
import { KeyScope, nameLike, ofWorkspaceQuery } from "./organization.ts";

const roles = ["reader", "agent", "deployer", "listener", "admin"] as const;
export const KeyRole = literals(roles);
export type KeyRole = Static<typeof KeyRole>;

const fields = {
  id: uuid(),
  name: Type.String({ examples: ["ci"] }),
  prefix: Type.String({
    description: "How the key begins: enough to know it by, useless to whoever reads it.",
    examples: ["ph_3f1c9a0b7d2e"],
  }),
  role: KeyRole,
  scope: KeyScope,
  organization_id: uuid(),
  workspace_id: nullable(uuid(), "The only workspace of a workspace's key; where an operator's key acts by default."),
  listener_id: nullable(uuid(), "The listener that speaks with it; role listener only."),
  status: literals(["active", "expired", "revoked"]),
  created_at: timestamp(),
  expires_at: nullable(timestamp()),
  last_used_at: nullable(timestamp(), "Exact to a minute."),
  revoked_at: nullable(timestamp()),
};

export const ApiKey = Type.Object(fields, { $id: "ApiKey" });
export type ApiKey = Static<typeof ApiKey>;

/** The only answer that holds the key itself. */
export const CreatedApiKey = Type.Object(
  {
    ...fields,
    key: Type.String({
      description: "The key. Shown this once; only its digest is stored.",
      examples: ["ph_3f1c9a0b7d2e_X5m0nJ8cV1wq7Zr2LtK4hB9sYpA3dGfUeQiNoMxTjRk"],
    }),
  },
  { $id: "CreatedApiKey" },
);
export type CreatedApiKey = Static<typeof CreatedApiKey>;

export const ApiKeyPage = resourcePage(ApiKey, "ApiKeyPage");
export const ApiKeyPath = Type.Object({ api_key_id: uuid("The key.") });

export const ListApiKeysQuery = Type.Object({
  ...offsetQuery,
  ...ofWorkspaceQuery,
  role: Type.Optional(literals(roles, { description: "Only keys of this role." })),
  include_inactive: Type.Boolean({ default: false, description: "Also expired and revoked ones." }),
});

/** Leaving something out never makes a key more powerful. */
export const CreateApiKey = Type.Object(
  {
    name: nameLike("ci"),
    role: KeyRole,
    scope: given(KeyScope, "At most the scope of the key that asks. Default workspace."),
    organization_id: given(uuid(), "Of an organization's key. Default: the key's own."),
    workspace_id: given(uuid(), "Of a workspace's key. Default: the key's own, or `X-Tenant-Id`."),
    listener_id: given(uuid(), "Whom the key speaks for; needed by the role listener, refused for others."),
    expires_at: given(timestamp(), "A moment to come. Default: never."),
  },
  { $id: "CreateApiKey" },
);
export type CreateApiKey = Static<typeof CreateApiKey>;
