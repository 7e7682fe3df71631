import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { literals, nullable, optional, timestamp, uuid } from "../schema.ts";
import { KeyScope, nameLike, ofWorkspaceQuery } from "./organization.ts";

const roles = ["caller", "reader", "agent", "deployer", "listener", "admin"] as const;
export const KeyRole = literals(roles);
export type KeyRole = Static<typeof KeyRole>;

const fields = {
  id: uuid(),
  name: Type.String({ examples: ["ci"] }),
  prefix: Type.String({
    description: "Start of the key. It identifies the key but cannot be used to authenticate.",
    examples: ["ph_3f1c9a0b7d2e"],
  }),
  role: KeyRole,
  scope: KeyScope,
  organization_id: uuid(),
  workspace_id: nullable(uuid(), "The workspace of a workspace's key, or the default workspace of an operator's key."),
  listener_id: nullable(uuid(), "The listener that uses the key. Only for the role listener."),
  status: literals(["active", "expired", "revoked"]),
  created_at: timestamp(),
  expires_at: nullable(timestamp()),
  last_used_at: nullable(timestamp(), "Exact to a minute."),
  revoked_at: nullable(timestamp()),
};

export const ApiKey = Type.Object(fields, { $id: "ApiKey" });
export type ApiKey = Static<typeof ApiKey>;

/** The only response that contains the key itself. */
export const CreatedApiKey = Type.Object(
  {
    ...fields,
    key: Type.String({
      description: "The key. It is shown only once, because the server stores only its digest.",
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
  include_inactive: Type.Boolean({ default: false, description: "Include expired and revoked keys." }),
});

/** A field that is left out never makes a key more powerful. */
export const CreateApiKey = Type.Object(
  {
    name: nameLike("ci"),
    role: KeyRole,
    scope: optional(KeyScope, "At most the scope of the calling key. Default workspace."),
    organization_id: optional(uuid(), "For an organization's key. Default: the organization of the calling key."),
    workspace_id: optional(
      uuid(),
      "For a workspace's key. Default: the workspace of the calling key, or `X-Tenant-Id`.",
    ),
    listener_id: optional(
      uuid(),
      "The listener that uses the key. Required for the role listener, refused for other roles.",
    ),
    expires_at: optional(timestamp(), "Must be in the future. Default: never."),
  },
  { $id: "CreateApiKey" },
);
export type CreateApiKey = Static<typeof CreateApiKey>;
