// A certified OpenID provider (oidc-provider) and an MCP server (the official SDK) that accepts its tokens, on loopback.
// Runs as a separate program: node identity-server.mjs '{"port": 1, "mcpPort": 2, "clients": [...], "accessTokenTtlS": 70}'
// Prints JSON lines on stdout: {"ready": true}, then every grant, refusal and revocation.

import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import {
  getOAuthProtectedResourceMetadataUrl,
  mcpAuthMetadataRouter,
} from "@modelcontextprotocol/sdk/server/auth/router.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import express from "express";
import { Provider } from "oidc-provider";

const { port, mcpPort, clients, accessTokenTtlS } = JSON.parse(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const mcpUrl = new URL(`http://127.0.0.1:${mcpPort}/mcp`);
const tell = (line) => console.log(JSON.stringify(line));

// The provider's warnings about production use. The output of this program goes to stdout line by line.
console.info = () => {};
console.warn = () => {};

const provider = new Provider(issuer, {
  clients,
  cookies: { keys: ["for tests"] },
  clientAuthMethods: ["none", "client_secret_basic", "client_secret_post"],
  scopes: ["openid", "offline_access", "email", "mcp:read"],
  claims: { openid: ["sub"], email: ["email", "email_verified"] },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: !id.startsWith("unverified") }),
  }),
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (_context, client) => client.grantTypeAllowed("refresh_token"),
  ttl: {
    ...{ AccessToken: accessTokenTtlS, AuthorizationCode: 60, Grant: 3600, IdToken: 3600, Interaction: 3600 },
    ...{ RefreshToken: 3600, Session: 3600 },
  },
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_context, resource) => {
        if (resource !== mcpUrl.href) throw new Error("unknown resource");
        return { scope: "mcp:read", audience: resource, accessTokenFormat: "opaque", accessTokenTTL: accessTokenTtlS };
      },
    },
  },
});
provider.on("grant.success", (context) => {
  const { access_token: token, refresh_token: refresh } = context.body;
  const { grant_type: grant, code, code_verifier: verifier } = context.oidc.params;
  tell({ grant, secrets: [token, refresh, code, verifier].filter((one) => one !== undefined) });
});
provider.on("grant.error", (context, error) => tell({ refused: context.oidc.params?.grant_type, error: error.error }));
provider.on("grant.revoked", () => tell({ revoked: "grant" }));
provider.on("access_token.destroyed", () => tell({ revoked: "access_token" }));
provider.on("registration_create.success", (_context, { clientId }) => tell({ registered: clientId }));

const mcp = express();
mcp.use(
  mcpAuthMetadataRouter({
    oauthMetadata: {
      issuer,
      authorization_endpoint: `${issuer}/auth`,
      token_endpoint: `${issuer}/token`,
      registration_endpoint: `${issuer}/reg`,
      response_types_supported: ["code"],
    },
    resourceServerUrl: mcpUrl,
    scopesSupported: ["mcp:read"],
  }),
);
const verifier = {
  async verifyAccessToken(token) {
    const found = await provider.AccessToken.find(token);
    if (found === undefined || !found.isValid) {
      const { InvalidTokenError } = await import("@modelcontextprotocol/sdk/server/auth/errors.js");
      throw new InvalidTokenError("unknown token");
    }
    const { clientId, exp, scope = "", aud, accountId } = found;
    return { token, clientId, scopes: scope.split(" "), expiresAt: exp, resource: new URL(aud), extra: { accountId } };
  },
};
const guard = requireBearerAuth({
  verifier,
  requiredScopes: ["mcp:read"],
  resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(mcpUrl),
  expectedResource: mcpUrl,
});
mcp.all("/mcp", guard, express.json(), async (request, response) => {
  const server = new McpServer({ name: "whoami", version: "1.0.0" });
  server.registerTool("whoami", { description: "Whose token it is" }, () => ({
    content: [{ type: "text", text: request.auth.extra.accountId }],
  }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  response.on("close", () => void transport.close());
  await server.connect(transport);
  await transport.handleRequest(request, response, request.body);
});

await new Promise((resolve) => provider.listen(port, "127.0.0.1", resolve));
await new Promise((resolve) => mcp.listen(mcpPort, "127.0.0.1", resolve));
tell({ ready: true });
