/** Examples for the OAuth schemas, used like those in `contract/examples.ts`. */

export const oauthProviderExample = {
  id: "f3d1f7f0-3c64-4c0e-8b1d-9a5e2f7c4b10",
  organization_id: "0b7a4b64-1f0c-4a55-9c0d-51f7a9b2c3d4",
  provider_id: "github",
  name: "GitHub",
  client_id: "Iv1.8a61f9b3a7aba766",
  auth_url: "https://github.com/login/oauth/authorize",
  token_url: "https://github.com/login/oauth/access_token",
  uses_pkce: true,
  code_challenge_method: "S256",
  provider_type: null,
  token_endpoint_auth_method: "client_secret_post",
  mcp_server_url: null,
  is_dynamic_client: false,
  authorization_params: {},
  allowed_redirect_uris: [],
  default_redirect_uri: null,
  issuer: null,
  revocation_url: null,
  scopes_supported: null,
  redirect_uri: "https://pierhead.example.com/v2/auth/callback/github",
  created_at: "2026-11-20T10:00:00.000000Z",
  updated_at: "2026-11-20T10:00:00.000000Z",
};
export const authenticatedExample = {
  status: "completed",
  url: null,
  auth_id: null,
  token: "gho_example",
  user_id: "alice",
  metadata: { scopes: ["repo"], expires_at: null, token_id: "5e0c5b7e-6f0a-4e43-8d8e-1b2f4c6a7d90" },
  expires_at: null,
};

export const oauthTokenExample = {
  id: "5e0c5b7e-6f0a-4e43-8d8e-1b2f4c6a7d90",
  provider_id: "github",
  provider_account_label: "alice@example.com",
  scopes: ["repo"],
  expires_at: null,
  is_default: true,
  created_at: "2026-11-20T10:00:00.000000Z",
  updated_at: "2026-11-20T10:00:00.000000Z",
};

export const agentConnectionExample = {
  id: "9b1b2c3d-4e5f-4a6b-8c7d-0e1f2a3b4c5d",
  agent_id: "support-bot",
  oauth_token_id: "5e0c5b7e-6f0a-4e43-8d8e-1b2f4c6a7d90",
  provider_id: "github",
  provider_account_label: "alice@example.com",
  scopes: ["repo"],
  expires_at: null,
  created_by: "alice",
  created_at: "2026-11-20T10:00:00.000000Z",
};

export const tokenEventExample = {
  id: "7c1d9a7e-52b8-4f30-9e6d-7a8b0c2d4e6f",
  provider_id: "github",
  agent_id: null,
  event_type: "refresh_failed",
  reason: "invalid_grant",
  source: "authenticate",
  provider_account_label: null,
  scopes: ["repo"],
  detail: "The provider no longer accepts the refresh token; the user has to consent again.",
  acknowledged_at: null,
  created_at: "2026-11-20T10:00:00.000000Z",
};
