import { type Static, Type } from "typebox";
import { freeObject, given, literals, mapOf, nullable, timestamp, uuid } from "../schema.ts";
import {
  agentConnectionExample,
  authenticatedExample,
  oauthTokenExample,
  tokenEventExample,
} from "./examples-oauth.ts";

/** Bound of ids that the authors of agents choose: of users, of agents. */
const textIdMax = 256;
const providerName = Type.String({ minLength: 1, maxLength: 128, examples: ["github"] });
const scopes = Type.Array(Type.String({ minLength: 1, maxLength: 512, examples: ["repo"] }), { maxItems: 200 });
const userId = (description: string) => given(Type.String({ minLength: 1, maxLength: textIdMax }), description);
const accountLabel = "Which account at the provider, for people who have several.";

/** Contract 9.3. */
export const Authenticate = Type.Object(
  {
    provider: providerName,
    scopes,
    user_id: userId("Whose token; any text by which you know your users. Default: X-User-Id, else the key's own."),
    ls_user_id: userId("As user_id, for clients that send it so."),
    agent_id: userId("The agent that asks: tokens obtained so are for it alone, and its connections count."),
    use_agent_builder_public_oauth: Type.Boolean({
      default: false,
      description: "Look in the operator's shared organization first.",
    }),
    force_new: Type.Boolean({ default: false, description: "Start a sign-in even if there is a usable token." }),
    token_id: given(uuid(), "Use this token of the user and no other."),
    redirect_uri: given(
      Type.String({ minLength: 1, maxLength: 2_048 }),
      "Who receives the code: one of the provider's allowed_redirect_uris.",
    ),
    is_default: Type.Boolean({ default: true, description: "The token obtained becomes the user's default here." }),
    check_only: Type.Boolean({ default: false, description: "Only look: start no sign-in, change nothing." }),
  },
  { $id: "Authenticate" },
);
export type Authenticate = Static<typeof Authenticate>;

export const AuthenticateStatus = literals(["completed", "pending", "connection_required", "token_expired"]);
export type AuthenticateStatus = Static<typeof AuthenticateStatus>;

export const Authenticated = Type.Object(
  {
    status: AuthenticateStatus,
    url: nullable(Type.String(), "Send the user there."),
    auth_id: nullable(uuid(), "Wait on this one."),
    token: nullable(Type.String(), "Valid now, for a minute at least."),
    user_id: nullable(Type.String(), "Whose token; null: the agent's own."),
    metadata: nullable(
      freeObject(),
      "What the provider said of the token: scopes, expiry, address of the account's instance.",
    ),
    expires_at: nullable(timestamp(), "null: it does not expire, or nobody knows."),
  },
  { $id: "Authenticated", examples: [authenticatedExample] },
);
export type Authenticated = Static<typeof Authenticated>;

export const AuthRequestPath = Type.Object({
  auth_id: Type.String({
    description: "From the answer of authenticate.",
    examples: ["0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22"],
  }),
});

/** Longest wait that is kept open; the SDK asks for 300 s. */
export const waitSecondsMax = 600;

export const WaitQuery = Type.Object({
  timeout: Type.Number({
    default: 30,
    description: `Seconds to wait for the user; at most ${waitSecondsMax}, 0 only looks.`,
  }),
});

export const Waited = Type.Object(
  {
    status: literals(["completed", "pending", "timeout", "not_found"]),
    token: nullable(Type.String(), "When completed."),
  },
  { $id: "Waited" },
);
export type Waited = Static<typeof Waited>;

/** What the provider's page sends to us through the user's browser (RFC 6749, section 4.1.2; RFC 9207). */
export const CallbackQuery = Type.Object({
  code: Type.Optional(Type.String({ description: "Authorization code." })),
  state: Type.Optional(Type.String({ description: "Names the request that this answers." })),
  iss: Type.Optional(Type.String({ description: "Who answers (RFC 9207)." })),
  error: Type.Optional(Type.String({ description: "Why there is no code." })),
  error_description: Type.Optional(Type.String({ description: "The same for people." })),
});

export const SetupQuery = Type.Object({
  ...CallbackQuery.properties,
  setup_action: Type.Optional(Type.String({ description: "install, update or request." })),
  installation_id: Type.Optional(Type.Integer({ maximum: Number.MAX_SAFE_INTEGER, description: "Of the GitHub App." })),
});

export const FinishAuthRequest = Type.Object(
  {
    code: Type.String({ minLength: 1, maxLength: 8_192, examples: ["a1b2c3"] }),
    state: Type.String({ minLength: 1, maxLength: 512, examples: ["Zk3v"] }),
    iss: given(Type.String({ maxLength: 2_048 }), "As it came in the redirect, if it did (RFC 9207)."),
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
    description: "A token we keep for somebody. Never the token itself.",
    examples: [oauthTokenExample],
  },
);
export type OAuthToken = Static<typeof OAuthToken>;
export const OAuthTokenList = Type.Array(OAuthToken);

export const OAuthTokenPath = Type.Object({ token_id: uuid("The token.") });

const ofProvider = { description: "The provider's chosen name.", examples: ["github"] };
export const ListOAuthTokensQuery = Type.Object({ provider_id: Type.Optional(Type.String(ofProvider)) });
export const OfProviderQuery = Type.Object({ provider_id: Type.String(ofProvider) });

export const DeletedOAuthTokens = Type.Object(
  { message: Type.String({ examples: ["1 token deleted."] }), provider_id: Type.String({ examples: ["github"] }) },
  { $id: "DeletedOAuthTokens" },
);

export const PatchOAuthToken = Type.Object(
  { provider_account_label: given(Type.String({ maxLength: 256 }), accountLabel), is_default: given(Type.Boolean()) },
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

const brought = {
  access_token: Type.String({ minLength: 1, maxLength: 16_384, examples: ["gho_example"] }),
  refresh_token: given(Type.String({ minLength: 1, maxLength: 16_384 })),
  expires_in_seconds: given(Type.Integer({ minimum: 0, maximum: 315_360_000 }), "null: it does not expire."),
  scopes: Type.Array(Type.String({ minLength: 1, maxLength: 512 }), { maxItems: 200, default: [] }),
  metadata: given(freeObject(), "Given back with the token; nothing secret belongs there."),
};

export const ImportOAuthToken = Type.Object(
  { provider_id: providerName, ...brought, is_default: Type.Boolean({ default: true }) },
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
    source: Type.String({ description: "What was being done." }),
    provider_account_label: nullable(Type.String()),
    scopes: Type.Array(Type.String()),
    detail: nullable(Type.String(), "For people."),
    acknowledged_at: nullable(timestamp()),
    created_at: timestamp(),
  },
  { $id: "TokenEvent", examples: [tokenEventExample] },
);
export type TokenEvent = Static<typeof TokenEvent>;
export const TokenEventList = Type.Array(TokenEvent);
export const ListTokenEventsQuery = Type.Object({
  provider_id: Type.Optional(Type.String(ofProvider)),
  limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Newest first, so many." }),
});

const agentId = Type.String({
  minLength: 1,
  maxLength: textIdMax,
  description: "The agent, as authenticate names it.",
  examples: ["support-bot"],
});
export const AgentPath = Type.Object({ agent_id: agentId });
export const AgentConnectionPath = Type.Object({ agent_id: agentId, connection_id: uuid("The connection.") });
export const AgentProviderPath = Type.Object({ agent_id: agentId, provider_id: Type.String(ofProvider) });

/** A token that an agent may use, whoever asks it (contract 9.1). */
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
  { ...brought, provider_account_label: given(Type.String({ maxLength: 256 }), accountLabel) },
  { $id: "PutAgentToken" },
);
export type PutAgentToken = Static<typeof PutAgentToken>;
