import { type Static, Type } from "typebox";
import { nameLike } from "../administration/organization.ts";
import { freeObject, literals, mapOf, nullable, optional, timestamp, uuid } from "../schema.ts";
import { oauthProviderExample } from "./examples-oauth.ts";

/** Services that deviate from the standard and need special handling (contract 9.5). */
export const OAuthProviderType = literals(["microsoft", "salesforce", "slack"]);
export type OAuthProviderType = Static<typeof OAuthProviderType>;

/** How the server authenticates at the token endpoint (RFC 7591, section 2). `none`: a public client, which needs PKCE. */
export const TokenEndpointAuthMethod = literals(["none", "client_secret_basic", "client_secret_post"]);
export type TokenEndpointAuthMethod = Static<typeof TokenEndpointAuthMethod>;

/** Only S256: `plain` protects nothing (RFC 9700, section 2.1.1). */
export const CodeChallengeMethod = literals(["S256"]);

const providerId = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: "^[A-Za-z0-9][A-Za-z0-9._-]*$",
  description: "Name that you choose. Unique in the organization, used in paths and by agents.",
  examples: ["github"],
});
const url = (description: string, example?: string) =>
  Type.String({ minLength: 1, maxLength: 2_048, description, ...(example !== undefined && { examples: [example] }) });

const descriptions = {
  authorizationParams: "Additional parameters of the authorization URL, such as `access_type=offline`.",
  allowedRedirectUris:
    "Your own addresses that may receive the code instead of this server. They are compared character by character.",
  defaultRedirectUri: "The allowed redirect URI for requests that name none. null: this server's own.",
  issuer: "Issuer of the provider's responses (RFC 9207). If set, a response from another issuer is refused.",
  revocationUrl: "Endpoint that revokes tokens (RFC 7009) before they are deleted.",
};

/** OAuth server at which an organization has registered a client (contract 9.1). The client secret is never shown. */
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
    is_dynamic_client: Type.Boolean({ description: "This server registered the client (RFC 7591)." }),
    authorization_params: mapOf(Type.String(), descriptions.authorizationParams),
    allowed_redirect_uris: Type.Array(Type.String(), { description: descriptions.allowedRedirectUris }),
    default_redirect_uri: nullable(Type.String(), descriptions.defaultRedirectUri),
    issuer: nullable(Type.String(), descriptions.issuer),
    revocation_url: nullable(Type.String(), descriptions.revocationUrl),
    scopes_supported: nullable(Type.Array(Type.String()), "Scopes that the provider lists. null: it lists none."),
    redirect_uri: Type.String({
      description: "Redirect URI of this server. Register exactly this one at the provider.",
    }),
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  { $id: "OAuthProvider", examples: [oauthProviderExample] },
);
export type OAuthProvider = Static<typeof OAuthProvider>;

export const OAuthProviderList = Type.Array(OAuthProvider);

/** Settings of a common provider, before a client is registered there. */
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
      description: "Page on which to register an application to get a client id and a secret.",
      examples: ["https://github.com/settings/developers"],
    }),
    common_scopes: Type.Array(Type.String({ examples: ["repo"] }), {
      description: "Common scopes. The provider has more.",
    }),
  },
  { $id: "OAuthPreset" },
);
export type OAuthPreset = Static<typeof OAuthPreset>;
export const OAuthPresetList = Type.Array(OAuthPreset);

export const OAuthProviderPath = Type.Object({
  provider_id: Type.String({ description: "The provider's `provider_id`.", examples: ["github"] }),
});

const shared = {
  authorization_params: optional(mapOf(Type.String({ maxLength: 1_024 })), descriptions.authorizationParams),
  allowed_redirect_uris: optional(
    Type.Array(url("A redirect URI."), { maxItems: 50 }),
    descriptions.allowedRedirectUris,
  ),
  default_redirect_uri: optional(url("A redirect URI."), descriptions.defaultRedirectUri),
  issuer: optional(url("An issuer."), descriptions.issuer),
  revocation_url: optional(url("An endpoint."), descriptions.revocationUrl),
};

export const CreateOAuthProvider = Type.Object(
  {
    provider_id: providerId,
    preset: optional(
      Type.String({ examples: ["github"] }),
      "Id of a preset, which fills in the fields that are left out.",
    ),
    name: optional(nameLike("GitHub"), "Display name.", {
      requiredUnless: "preset",
    }),
    client_id: Type.String({ minLength: 1, maxLength: 512, examples: ["Iv1.8a61f9b3a7aba766"] }),
    client_secret: optional(Type.String({ minLength: 1, maxLength: 4_096 }), "Stored encrypted, never shown again."),
    auth_url: optional(url("An endpoint."), "Endpoint where users sign in and consent.", { requiredUnless: "preset" }),
    token_url: optional(url("An endpoint."), "Endpoint that exchanges codes for tokens.", { requiredUnless: "preset" }),
    uses_pkce: optional(
      Type.Boolean(),
      "Default: true, or the preset's value. false has an effect only if the metadata of `issuer` says that the provider does not support PKCE with S256.",
    ),
    code_challenge_method: optional(CodeChallengeMethod, "Default S256."),
    provider_type: optional(OAuthProviderType, "For services that deviate from the standard."),
    token_endpoint_auth_method: optional(
      TokenEndpointAuthMethod,
      "Default client_secret_post, or none without a secret.",
    ),
    ...shared,
  },
  { $id: "CreateOAuthProvider" },
);
export type CreateOAuthProvider = Static<typeof CreateOAuthProvider>;

/** A null or absent field leaves the setting unchanged. */
export const PatchOAuthProvider = Type.Object(
  {
    name: optional(nameLike("GitHub")),
    client_id: optional(Type.String({ minLength: 1, maxLength: 512 })),
    client_secret: optional(
      Type.String({ minLength: 1, maxLength: 4_096 }),
      "Required again when token_url or revocation_url moves to another host.",
    ),
    auth_url: optional(url("An endpoint.")),
    token_url: optional(url("An endpoint.")),
    uses_pkce: optional(Type.Boolean()),
    code_challenge_method: optional(CodeChallengeMethod),
    token_endpoint_auth_method: optional(TokenEndpointAuthMethod),
    ...shared,
  },
  { $id: "PatchOAuthProvider" },
);
export type PatchOAuthProvider = Static<typeof PatchOAuthProvider>;

export const DiscoverMcpProvider = Type.Object(
  {
    provider_id: providerId,
    name: nameLike("Weather tools", "Display name."),
    mcp_server_url: url(
      "Address of the MCP server, which is the source of all other settings.",
      "https://mcp.example.com/mcp",
    ),
  },
  { $id: "DiscoverMcpProvider" },
);
export type DiscoverMcpProvider = Static<typeof DiscoverMcpProvider>;

export const ResultMessage = Type.Object(
  { message: Type.String({ examples: ["OAuth provider 'github' deleted."] }) },
  { $id: "ResultMessage" },
);

/** Built-in providers. The original API has some, with its own client ids. Here the list is always empty. */
export const PlatformProviderList = Type.Array(freeObject());
