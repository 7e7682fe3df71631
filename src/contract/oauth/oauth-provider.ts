import { type Static, Type } from "typebox";
import { freeObject, given, literals, mapOf, nullable, timestamp, uuid } from "../schema.ts";
import { oauthProviderExample } from "./examples-oauth.ts";

/** Services whose answers differ from the standard in ways that must be said (contract 9.5). */
export const OAuthProviderType = literals(["microsoft", "salesforce", "slack"]);
export type OAuthProviderType = Static<typeof OAuthProviderType>;

/** How we prove who we are at the token endpoint (RFC 7591, section 2). `none`: a public client, which needs PKCE. */
export const TokenEndpointAuthMethod = literals(["none", "client_secret_basic", "client_secret_post"]);
export type TokenEndpointAuthMethod = Static<typeof TokenEndpointAuthMethod>;

/** `plain` protects nothing, so there is one method (RFC 9700, section 2.1.1). */
export const CodeChallengeMethod = literals(["S256"]);

const providerId = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: "^[A-Za-z0-9][A-Za-z0-9._-]*$",
  description: "Chosen by you; unique in the organization, used in paths and by agents.",
  examples: ["github"],
});
const url = (description: string, example?: string) =>
  Type.String({ minLength: 1, maxLength: 2_048, description, ...(example !== undefined && { examples: [example] }) });

const descriptions = {
  authorizationParams: "Further parameters of the authorization URL, such as `access_type=offline`.",
  allowedRedirectUris:
    "Addresses of yours that may receive the code instead of this server; compared character by character.",
  defaultRedirectUri: "The one of them that is used when a request names none; null: this server's own.",
  issuer: "Who signs the provider's answers (RFC 9207). When set, an answer that names another is refused.",
  revocationUrl: "Where tokens are revoked (RFC 7009) before they are deleted.",
};

/** An OAuth server that an organization has registered with (contract 9.1). The client secret is never shown. */
export const OAuthProvider = Type.Object(
  {
    id: uuid(),
    organization_id: uuid(),
    provider_id: providerId,
    name: Type.String(),
    client_id: Type.String(),
    auth_url: Type.String(),
    token_url: Type.String(),
    uses_pkce: Type.Boolean(),
    code_challenge_method: nullable(Type.String()),
    provider_type: nullable(OAuthProviderType),
    token_endpoint_auth_method: TokenEndpointAuthMethod,
    mcp_server_url: nullable(Type.String(), "The MCP server that this provider was discovered from."),
    is_dynamic_client: Type.Boolean({ description: "Registered by this server itself (RFC 7591)." }),
    authorization_params: mapOf(Type.String(), descriptions.authorizationParams),
    allowed_redirect_uris: Type.Array(Type.String(), { description: descriptions.allowedRedirectUris }),
    default_redirect_uri: nullable(Type.String(), descriptions.defaultRedirectUri),
    issuer: nullable(Type.String(), descriptions.issuer),
    revocation_url: nullable(Type.String(), descriptions.revocationUrl),
    scopes_supported: nullable(Type.Array(Type.String()), "What the provider says it knows; null: it does not say."),
    redirect_uri: Type.String({ description: "This server's own: register exactly this one at the provider." }),
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  { $id: "OAuthProvider", examples: [oauthProviderExample] },
);
export type OAuthProvider = Static<typeof OAuthProvider>;

export const OAuthProviderList = Type.Array(OAuthProvider);

/** What is known of a common provider before anybody registers there. */
export const OAuthPreset = Type.Object(
  {
    id: Type.String({ examples: ["github"] }),
    name: Type.String({ examples: ["GitHub"] }),
    auth_url: Type.String({ examples: ["https://github.com/login/oauth/authorize"] }),
    token_url: Type.String({ examples: ["https://github.com/login/oauth/access_token"] }),
    uses_pkce: Type.Boolean(),
    token_endpoint_auth_method: TokenEndpointAuthMethod,
    provider_type: nullable(OAuthProviderType),
    authorization_params: mapOf(Type.String(), descriptions.authorizationParams),
    registration_url: Type.String({
      description: "Where an application is registered there, which gives client id and secret.",
      examples: ["https://github.com/settings/developers"],
    }),
    common_scopes: Type.Array(Type.String({ examples: ["repo"] }), {
      description: "To begin with; the provider has more.",
    }),
  },
  { $id: "OAuthPreset" },
);
export type OAuthPreset = Static<typeof OAuthPreset>;
export const OAuthPresetList = Type.Array(OAuthPreset);

export const OAuthProviderPath = Type.Object({
  provider_id: Type.String({ description: "Its chosen name.", examples: ["github"] }),
});

const shared = {
  authorization_params: given(mapOf(Type.String({ maxLength: 1_024 })), descriptions.authorizationParams),
  allowed_redirect_uris: given(Type.Array(url("A redirect URI."), { maxItems: 50 }), descriptions.allowedRedirectUris),
  default_redirect_uri: given(url("A redirect URI."), descriptions.defaultRedirectUri),
  issuer: given(url("An issuer."), descriptions.issuer),
  revocation_url: given(url("An endpoint."), descriptions.revocationUrl),
};

export const CreateOAuthProvider = Type.Object(
  {
    provider_id: providerId,
    preset: given(Type.String({ examples: ["github"] }), "A preset's id: fills in whatever of the rest is left out."),
    name: given(Type.String({ minLength: 1, maxLength: 128, examples: ["GitHub"] }), "For people.", {
      requiredUnless: "preset",
    }),
    client_id: Type.String({ minLength: 1, maxLength: 512, examples: ["Iv1.8a61f9b3a7aba766"] }),
    client_secret: given(Type.String({ minLength: 1, maxLength: 4_096 }), "Kept sealed, never shown again."),
    auth_url: given(url("An endpoint."), "Where people sign in and consent.", { requiredUnless: "preset" }),
    token_url: given(url("An endpoint."), "Where codes become tokens.", { requiredUnless: "preset" }),
    uses_pkce: given(
      Type.Boolean(),
      "Default false, or as the preset says. Switch it on wherever the provider knows it.",
    ),
    code_challenge_method: given(CodeChallengeMethod, "Default S256."),
    provider_type: given(OAuthProviderType, "Services with ways of their own."),
    token_endpoint_auth_method: given(TokenEndpointAuthMethod, "Default client_secret_post; none without a secret."),
    ...shared,
  },
  { $id: "CreateOAuthProvider" },
);
export type CreateOAuthProvider = Static<typeof CreateOAuthProvider>;

/** Null and absent leave a field as it is. */
export const PatchOAuthProvider = Type.Object(
  {
    name: given(Type.String({ minLength: 1, maxLength: 128, examples: ["GitHub"] })),
    client_id: given(Type.String({ minLength: 1, maxLength: 512 })),
    client_secret: given(
      Type.String({ minLength: 1, maxLength: 4_096 }),
      "Needed again when token_url or revocation_url moves to another host.",
    ),
    auth_url: given(url("An endpoint.")),
    token_url: given(url("An endpoint.")),
    uses_pkce: given(Type.Boolean()),
    code_challenge_method: given(CodeChallengeMethod),
    token_endpoint_auth_method: given(TokenEndpointAuthMethod),
    ...shared,
  },
  { $id: "PatchOAuthProvider" },
);
export type PatchOAuthProvider = Static<typeof PatchOAuthProvider>;

export const DiscoverMcpProvider = Type.Object(
  {
    provider_id: providerId,
    name: Type.String({ minLength: 1, maxLength: 128, description: "For people.", examples: ["Weather tools"] }),
    mcp_server_url: url("The MCP server; all else is read there.", "https://mcp.example.com/mcp"),
  },
  { $id: "DiscoverMcpProvider" },
);
export type DiscoverMcpProvider = Static<typeof DiscoverMcpProvider>;

export const Told = Type.Object(
  { message: Type.String({ examples: ["OAuth provider 'github' deleted."] }) },
  { $id: "Told" },
);

/** Built-in providers of the original, which come with client ids of its own; here there are none. */
export const PlatformProviderList = Type.Array(freeObject());
