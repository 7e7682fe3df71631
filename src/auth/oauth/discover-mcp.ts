import {
  type AuthorizationServer,
  allowInsecureRequests,
  customFetch,
  discoveryRequest,
  dynamicClientRegistrationRequest,
  OperationProcessingError,
  processDiscoveryResponse,
  processDynamicClientRegistrationResponse,
  processResourceDiscoveryResponse,
  resourceDiscoveryRequest,
} from "oauth4webapi";
import { ApiError, errors } from "../../contract/error.ts";
import type { TokenEndpointAuthMethod } from "../../contract/oauth/oauth-provider.ts";
import { oauthScopesLengthMax } from "../../domain/limits.ts";
import { isPlainText } from "../../domain/plain-text.ts";
import type { ProviderFields } from "../../store/oauth/oauth-providers.ts";
import { failureOf, OAuthFailure } from "./failure.ts";
import type { ProviderFetch } from "./outbound.ts";
import { checkProviderSettings, readUrl } from "./provider-settings.ts";

/** Result of a discovery: the authorization server of an MCP server, and a client that is registered there. */
export interface DiscoveredProvider {
  settings: ProviderFields;
  secret: string | null;
  discovered: {
    names_issuer: boolean;
    mcp_server_url: string;
    resource: string;
    is_dynamic_client: true;
    scopes_supported: string[] | null;
  };
}

interface DiscoverRequest {
  name: string;
  mcpServerUrl: string;
  redirectUri: string;
  allowPrivateNetwork: boolean;
}

/**
 * Finds the authorization server of an MCP server and registers a client there (contract 9.6; RFC 9728, 8414, 7591).
 * @throws ApiError 400 `invalidProvider` when the address is invalid; `mcpDiscoveryFailed` with the failed step and reason.
 */
export async function discoverMcpProvider(fetch: ProviderFetch, request: DiscoverRequest): Promise<DiscoveredProvider> {
  const server = readUrl("mcp_server_url", request.mcpServerUrl);
  try {
    const resource = await findResource(fetch, server);
    const as = await findAuthorizationServer(
      fetch,
      resource.issuer ?? new URL(server.origin),
      resource.issuer !== null,
    );
    return await register(fetch, request, { as, resource });
  } catch (error) {
    if (error instanceof ApiError && error.code !== "invalidProvider") throw error;
    throw errors.mcpDiscoveryFailed(error instanceof ApiError ? error.message : failureOf(error).message);
  }
}

interface Resource {
  /** Resource for which to request tokens (RFC 8707). */
  identifier: string;
  /** null: the server does not name its authorization server, as in older revisions of MCP. */
  issuer: URL | null;
  scopes: string[] | null;
}

async function findResource(fetch: ProviderFetch, server: URL): Promise<Resource> {
  const named = await namedMetadata(fetch, server);
  const attempts: (() => Promise<Response>)[] = [
    ...(named === null ? [] : [() => fetch(named, { headers: { accept: "application/json" } })]),
    () => resourceDiscoveryRequest(server, library(fetch)),
    ...(server.pathname === "/" ? [] : [() => resourceDiscoveryRequest(new URL(server.origin), library(fetch))]),
  ];
  for (const attempt of attempts) {
    const answer = await attempt();
    if (answer.status !== 200) continue;
    return readResource(answer, server);
  }
  return { identifier: server.href, issuer: null, scopes: null };
}

/** Sends a request without a token and returns the `resource_metadata` of the challenge, if there is one. */
async function namedMetadata(fetch: ProviderFetch, server: URL): Promise<string | null> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const answer = await fetch(server.href, { method: "POST", headers, body });
  const challenge = answer.status === 401 ? (answer.headers.get("www-authenticate") ?? "") : "";
  const [, quoted, bare] = /\bresource_metadata\s*=\s*(?:"([^"]*)"|([^\s",]+))/i.exec(challenge) ?? [];
  return quoted ?? bare ?? null;
}

async function readResource(answer: Response, server: URL): Promise<Resource> {
  const claimed = await claimedResource(answer.clone());
  // It must be this address or one that contains it, because /mcp may be protected as its whole origin.
  const isIts =
    claimed.origin === server.origin && `${server.pathname}/`.startsWith(claimed.pathname.replace(/(?<!\/)\/*$/, "/"));
  if (!isIts) {
    const because = `The metadata of ${server.host} is about another resource (RFC 9728, section 3.3).`;
    throw new OAuthFailure("misconfigured", "other_resource", because);
  }
  const metadata = await processResourceDiscoveryResponse(claimed, answer);
  const [issuer] = listOf(metadata.authorization_servers);
  const isIssuer = typeof issuer === "string" && URL.canParse(issuer);
  return {
    identifier: metadata.resource,
    issuer: isIssuer ? new URL(issuer) : null,
    scopes: textsOf(metadata.scopes_supported),
  };
}

async function claimedResource(answer: Response): Promise<URL> {
  const body: unknown = await answer.json().catch(() => null);
  const resource = typeof body === "object" && body !== null && "resource" in body ? body.resource : undefined;
  if (typeof resource === "string" && URL.canParse(resource)) return new URL(resource);
  throw new OAuthFailure("unavailable", "invalid_response", "The metadata of the MCP server names no resource.");
}

/** @param isNamed whether the MCP server named this issuer. If not, missing metadata is normal in older revisions of MCP. */
async function findAuthorizationServer(
  fetch: ProviderFetch,
  issuer: URL,
  isNamed: boolean,
): Promise<AuthorizationServer> {
  for (const algorithm of ["oauth2", "oidc"] as const) {
    const answer = await discoveryRequest(issuer, { ...library(fetch), algorithm });
    if (answer.status === 200) return checkedServer(await processed(issuer, answer), issuer);
  }
  if (isNamed) {
    const because = `${issuer.host} has no metadata of an authorization server (RFC 8414).`;
    throw new OAuthFailure("misconfigured", "no_metadata", because);
  }
  const at = (path: string) => new URL(path, issuer).href;
  return {
    issuer: issuer.href,
    authorization_endpoint: at("/authorize"),
    token_endpoint: at("/token"),
    registration_endpoint: at("/register"),
  };
}

async function processed(issuer: URL, answer: Response): Promise<AuthorizationServer> {
  try {
    return await processDiscoveryResponse(issuer, answer);
  } catch (error) {
    // The library throws a TypeError for an issuer that is no address.
    if (!(error instanceof OperationProcessingError || error instanceof TypeError)) throw error;
    const because = `The metadata of ${issuer.host} is broken, or names another issuer (RFC 8414, section 3.3).`;
    throw new OAuthFailure("misconfigured", "other_issuer", because);
  }
}

/** Returns the server if it announces PKCE, which MCP requires. */
function checkedServer(as: AuthorizationServer, issuer: URL): AuthorizationServer {
  if (listOf(as.code_challenge_methods_supported).includes("S256")) return as;
  const because = `${issuer.host} does not offer PKCE with S256, which MCP requires.`;
  throw new OAuthFailure("misconfigured", "no_pkce", because);
}

async function register(
  fetch: ProviderFetch,
  request: DiscoverRequest,
  { as, resource }: { as: AuthorizationServer; resource: Resource },
): Promise<DiscoveredProvider> {
  const { authorization_endpoint: authUrl, token_endpoint: tokenUrl, registration_endpoint: registrationUrl } = as;
  if (typeof authUrl !== "string" || typeof tokenUrl !== "string") {
    throw new OAuthFailure(
      "misconfigured",
      "no_endpoints",
      "The metadata of the authorization server contains no endpoints.",
    );
  }
  const given = [
    authUrl,
    tokenUrl,
    as.issuer,
    as.revocation_endpoint ?? "",
    registrationUrl ?? "",
    resource.identifier,
  ];
  if (given.some((url) => String(url).length > urlLengthMax))
    throw new OAuthFailure("misconfigured", "too_long", tooLong);
  if (given.some((url) => /[^\x21-\x7e]/.test(String(url)))) throw new OAuthFailure("misconfigured", "no_text", noText);
  const draft: ProviderFields = {
    name: request.name,
    client_id: "",
    auth_url: authUrl,
    token_url: tokenUrl,
    uses_pkce: true,
    provider_type: null,
    token_endpoint_auth_method: "none",
    authorization_params: {},
    allowed_redirect_uris: [],
    default_redirect_uri: null,
    issuer: as.issuer,
    revocation_url: typeof as.revocation_endpoint === "string" ? as.revocation_endpoint : null,
  };
  // Checked before the registration, which is useless if the endpoints are not allowed.
  checkProviderSettings(draft, { ...request, hasSecret: false });
  if (registrationUrl === undefined) {
    const because =
      "The authorization server does not support dynamic registration. Register an application there by hand and create the " +
      `provider with auth_url ${authUrl} and token_url ${tokenUrl}.`;
    throw new OAuthFailure("misconfigured", "no_registration", because);
  }
  const client = await registeredClient(fetch, as, request);
  const settings = { ...draft, client_id: client.id, token_endpoint_auth_method: client.method };
  checkProviderSettings(settings, { ...request, hasSecret: client.secret !== null });
  return {
    settings,
    secret: client.secret,
    discovered: {
      names_issuer: as.authorization_response_iss_parameter_supported === true,
      mcp_server_url: request.mcpServerUrl,
      resource: resource.identifier,
      is_dynamic_client: true,
      scopes_supported: resource.scopes ?? textsOf(as.scopes_supported),
    },
  };
}

async function registeredClient(fetch: ProviderFetch, as: AuthorizationServer, request: DiscoverRequest) {
  const wanted = chosenMethod(as);
  const metadata = {
    client_name: `Pierhead: ${request.name}`,
    redirect_uris: [request.redirectUri],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: wanted,
  };
  const answer = await dynamicClientRegistrationRequest(as, metadata, library(fetch));
  const client = await processDynamicClientRegistrationResponse(answer.status === 200 ? created(answer) : answer);
  // Without an answer about the method and without a secret, the server cannot require one.
  const defaultMethod = client.client_secret === undefined ? "none" : wanted;
  const method = (client.token_endpoint_auth_method ?? defaultMethod) as TokenEndpointAuthMethod;
  if (!methods.includes(method)) {
    const because = "The authorization server registered an authentication method that was not requested.";
    throw new OAuthFailure("misconfigured", "invalid_client_metadata", because);
  }
  const secret = method === "none" ? null : (client.client_secret ?? null);
  if (client.client_id.length > clientIdLengthMax || String(secret ?? "").length > clientSecretLengthMax) {
    throw new OAuthFailure("misconfigured", "too_long", tooLong);
  }
  if (![client.client_id, secret ?? ""].map(String).every(isPlainText)) {
    throw new OAuthFailure("misconfigured", "no_text", noText);
  }
  return { id: client.client_id, secret: secret as string | null, method };
}

/** In order of preference: `none` first, because a missing secret cannot be lost and PKCE protects the code. */
const methods: readonly TokenEndpointAuthMethod[] = ["none", "client_secret_post", "client_secret_basic"];

/** Returns the preferred method that the server offers. The default of the standard is Basic (RFC 8414, section 2). */
function chosenMethod(as: AuthorizationServer): TokenEndpointAuthMethod {
  const offered = listOf(as.token_endpoint_auth_methods_supported ?? ["client_secret_basic"]);
  return methods.find((method) => offered.includes(method)) ?? "none";
}

/** Accepts a status of 200 as well. The standard requires 201, but some servers answer 200. */
const created = (answer: Response) => new Response(answer.body, { status: 201, headers: answer.headers });

const library = (fetch: ProviderFetch) => ({ [customFetch]: fetch, [allowInsecureRequests]: true });

/** Returns a list of metadata, which the library does not check. Another value counts as an empty one. */
const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Returns the first of the scopes that a server names: as many as a token may have. */
function textsOf(value: unknown): string[] | null {
  if (!Array.isArray(value) || !value.every((one) => typeof one === "string")) return null;
  let left = oauthScopesLengthMax;
  return value.filter(isPlainText).filter((scope: string) => {
    left -= scope.length + 1;
    return left >= 0;
  });
}

/** What a provider may have that is entered by hand. Every list of providers returns all of it. */
const urlLengthMax = 2_048;
const clientIdLengthMax = 512;
const clientSecretLengthMax = 4_096;
const noText = "The servers sent addresses or a client with characters that those of no provider have.";
const tooLong = "The servers sent addresses or a client that are longer than those of any provider.";
