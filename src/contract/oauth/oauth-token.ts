import { type Static, Type } from "typebox";
import { freeObject, literals, mapOf, nullable, optional, timestamp, uuid } from "../schema.ts";
import {
  agentConnectionExample,
  authenticatedExample,
  oauthTokenExample,
  tokenEventExample,
} from "./examples-oauth.ts";

/** Maximum length of ids that agent authors choose, for users and for agents. */
const textIdMax = 256;
const providerName = Type.String({ minLength: 1, maxLength: 128, examples: ["github"] });
const scopes = Type.Array(Type.String({ minLength: 1, maxLength: 512, examples: ["repo"] }), { maxItems: 200 });
const userId = (description: string) => optional(Type.String({ minLength: 1, maxLength: textIdMax }), description);
const accountLabel = "Label of the account at the provider, for users who have several.";

/** Request of `authenticate` (contract 9.3). */
export const Authenticate = Type.Object(
  {
    provider: providerName,
    scopes,
    user_id: userId(
      "User whose token to get: any text that identifies your user. Default: X-User-Id, otherwise the key's own id.",
    ),
    ls_user_id: userId("Same as user_id, for clients that send this name."),
    agent_id: userId(
      "The requesting agent. Tokens obtained with it are for this agent only, and its connections apply.",
    ),
    use_agent_builder_public_oauth: Type.Boolean({
      default: false,
      description: "Search the operator's shared organization first.",
    }),
    force_new: Type.Boolean({ default: false, description: "Start a sign-in even if a usable token exists." }),
    token_id: optional(uuid(), "Use only this token of the user."),
    redirect_uri: optional(
      Type.String({ minLength: 1, maxLength: 2_048 }),
      "Address that receives the code: one of the provider's allowed_redirect_uris.",
    ),
    is_default: Type.Boolean({ default: true, description: "Make the new token the user's default at this provider." }),
    check_only: Type.Boolean({ default: false, description: "Only check: start no sign-in, change nothing." }),
  },
  { $id: "Authenticate" },
);
export type Authenticate = Static<typeof Authenticate>;

export const AuthenticateStatus = literals(["completed", "pending", "connection_required", "token_expired"]);
export type AuthenticateStatus = Static<typeof AuthenticateStatus>;

export const Authenticated = Type.Object(
  {
    status: AuthenticateStatus,
    url: nullable(Type.String(), "Address to send the user to."),
    auth_id: nullable(uuid(), "Id to wait on."),
    token: nullable(Type.String(), "Valid for at least one more minute."),
    user_id: nullable(Type.String(), "Owner of the token. null: the agent."),
    metadata: nullable(
      freeObject(),
      "Facts from the provider about the token: scopes, expiry, address of the account's instance.",
    ),
    expires_at: nullable(timestamp(), "null: the token does not expire, or its expiry is unknown."),
  },
  { $id: "Authenticated", examples: [authenticatedExample] },
);
export type Authenticated = Static<typeof Authenticated>;

export const AuthRequestPath = Type.Object({
  auth_id: Type.String({
    description: "`auth_id` of the `authenticate` response.",
    examples: ["0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22"],
  }),
});

/** Longest wait that the server accepts. The SDK asks for 300 s. */
export const waitSecondsMax = 600;

export const WaitQuery = Type.Object({
  timeout: Type.Number({
    default: 30,
    description: `Seconds to wait for the user, at most ${waitSecondsMax}. 0 returns at once.`,
  }),
});

export const Waited = Type.Object(
  {
    status: literals(["completed", "pending", "timeout", "not_found"]),
    token: nullable(Type.String(), "Set when completed."),
  },
  { $id: "Waited" },
);
export type Waited = Static<typeof Waited>;

/** Parameters that the provider sends through the user's browser (RFC 6749, section 4.1.2; RFC 9207). */
export const CallbackQuery = Type.Object({
  code: Type.Optional(Type.String({ description: "Authorization code." })),
  state: Type.Optional(Type.String({ description: "Identifies the authorization request." })),
  iss: Type.Optional(Type.String({ description: "Issuer of the response (RFC 9207)." })),
  error: Type.Optional(Type.String({ description: "Error code, if there is no authorization code." })),
  error_description: Type.Optional(Type.String({ description: "Readable description of the error." })),
});

export const SetupQuery = Type.Object({
  ...CallbackQuery.properties,
  setup_action: Type.Optional(Type.String({ description: "install, update or request." })),
  installation_id: Type.Optional(
    Type.Integer({ maximum: Number.MAX_SAFE_INTEGER, description: "Installation of the GitHub App." }),
  ),
});

export const FinishAuthRequest = Type.Object(
  {
    code: Type.String({ minLength: 1, maxLength: 8_192, examples: ["a1b2c3"] }),
    state: Type.String({ minLength: 1, maxLength: 512, examples: ["Zk3v"] }),
    iss: optional(Type.String({ maxLength: 2_048 }), "The `iss` parameter of the redirect, if present (RFC 9207)."),
  },
  { $id: "FinishAuthRequest" },
);
export type FinishAuthRequest = Static<typeof FinishAuthRequest>;

export const OAuthToken = Type.Object(
  {
    id: uuid(),
    provider_id: Type.String(),
    provider_account_label: nullable(Type.String(), accountLabel),
    scopes: Type.Array(Type.String()),
    expires_at: nullable(timestamp()),
    is_default: Type.Boolean(),
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  {
    $id: "OAuthToken",
    description: "A stored token of a user. The token value itself is never returned.",
    examples: [oauthTokenExample],
  },
);
export type OAuthToken = Static<typeof OAuthToken>;
export const OAuthTokenList = Type.Array(OAuthToken);

export const OAuthTokenPath = Type.Object({ token_id: uuid("The token.") });

const providerIdField = { description: "The provider's `provider_id`.", examples: ["github"] };
export const ListOAuthTokensQuery = Type.Object({ provider_id: Type.Optional(Type.String(providerIdField)) });
export const OfProviderQuery = Type.Object({ provider_id: Type.String(providerIdField) });

export const DeletedOAuthTokens = Type.Object(
  { message: Type.String({ examples: ["1 token deleted."] }), provider_id: Type.String({ examples: ["github"] }) },
  { $id: "DeletedOAuthTokens" },
);

export const PatchOAuthToken = Type.Object(
  {
    provider_account_label: optional(Type.String({ maxLength: 256 }), accountLabel),
    is_default: optional(Type.Boolean()),
  },
  { $id: "PatchOAuthToken" },
);
export type PatchOAuthToken = Static<typeof PatchOAuthToken>;

export const HasToken = Type.Object({ has_token: Type.Boolean() }, { $id: "HasToken" });

export const HasTokensRequest = Type.Object(
  { provider_ids: Type.Array(providerName, { maxItems: 100 }) },
  { $id: "HasTokensRequest" },
);
export const HasTokens = Type.Object(
  { has_token: mapOf(Type.Boolean()) },
  { $id: "HasTokens", examples: [{ has_token: { github: true } }] },
);

/** A token that fits into a header of a request: agents put it there. */
const headerToken = { minLength: 1, maxLength: 16_384, pattern: "^[\\x21-\\x7e]+$" };

const imported = {
  access_token: Type.String({ ...headerToken, examples: ["gho_example"] }),
  refresh_token: optional(Type.String(headerToken)),
  expires_in_seconds: optional(Type.Integer({ minimum: 0, maximum: 315_360_000 }), "null: the token does not expire."),
  scopes: Type.Array(Type.String({ minLength: 1, maxLength: 512 }), { maxItems: 200, default: [] }),
  metadata: optional(freeObject(), "Returned with the token. Must not contain secrets."),
};

export const ImportOAuthToken = Type.Object(
  { provider_id: providerName, ...imported, is_default: Type.Boolean({ default: true }) },
  { $id: "ImportOAuthToken" },
);
export type ImportOAuthToken = Static<typeof ImportOAuthToken>;
export const ImportedOAuthToken = Type.Object({ token_id: uuid() }, { $id: "ImportedOAuthToken" });

export const TokenEvent = Type.Object(
  {
    id: uuid(),
    provider_id: Type.String(),
    agent_id: nullable(Type.String()),
    event_type: Type.String({ description: "connected, refreshed, refresh_failed, flow_failed, imported, deleted." }),
    reason: nullable(Type.String(), "A code, such as `invalid_grant` or `access_denied`."),
    source: Type.String({ description: "The action that caused the event." }),
    provider_account_label: nullable(Type.String()),
    scopes: Type.Array(Type.String()),
    detail: nullable(Type.String(), "Readable description."),
    acknowledged_at: nullable(timestamp()),
    created_at: timestamp(),
  },
  { $id: "TokenEvent", examples: [tokenEventExample] },
);
export type TokenEvent = Static<typeof TokenEvent>;
export const TokenEventList = Type.Array(TokenEvent);
export const ListTokenEventsQuery = Type.Object({
  provider_id: Type.Optional(Type.String(providerIdField)),
  limit: Type.Integer({
    minimum: 1,
    maximum: 200,
    default: 50,
    description: "Maximum number of events, newest first.",
  }),
});

const agentId = Type.String({
  minLength: 1,
  maxLength: textIdMax,
  description: "The agent, as named in `authenticate`.",
  examples: ["support-bot"],
});
export const AgentPath = Type.Object({ agent_id: agentId });
export const AgentConnectionPath = Type.Object({ agent_id: agentId, connection_id: uuid("The connection.") });
export const AgentProviderPath = Type.Object({ agent_id: agentId, provider_id: Type.String(providerIdField) });

/** Permission of an agent to use a token for any of its callers (contract 9.1). */
export const AgentConnection = Type.Object(
  {
    id: uuid(),
    agent_id: Type.String(),
    oauth_token_id: uuid(),
    provider_id: Type.String(),
    provider_account_label: nullable(Type.String()),
    scopes: Type.Array(Type.String()),
    expires_at: nullable(timestamp()),
    created_by: Type.String(),
    created_at: timestamp(),
  },
  { $id: "AgentConnection", examples: [agentConnectionExample] },
);
export type AgentConnection = Static<typeof AgentConnection>;
export const AgentConnectionList = Type.Object({ data: Type.Array(AgentConnection) }, { $id: "AgentConnectionList" });
export const CreateAgentConnection = Type.Object(
  { oauth_token_id: uuid("A token of the caller.") },
  { $id: "CreateAgentConnection" },
);
export const PutAgentToken = Type.Object(
  { ...imported, provider_account_label: optional(Type.String({ maxLength: 256 }), accountLabel) },
  { $id: "PutAgentToken" },
);
export type PutAgentToken = Static<typeof PutAgentToken>;
