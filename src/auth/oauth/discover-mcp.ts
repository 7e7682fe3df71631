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
import type { ProviderFields } from "../../store/oauth/oauth-providers.ts";
import { failureOf, OAuthFailure } from "./failure.ts";
import type { ProviderFetch } from "./outbound.ts";
import { checkProviderSettings, readUrl } from "./provider-settings.ts";

/** What an MCP server's address leads to: its authorization server, and a client registered there. */
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

interface Wish {
  name: string;
  mcpServerUrl: string;
  redirectUri: string;
  allowPrivateNetwork: boolean;
}

/**
 * Finds the authorization server of an MCP server and registers there (contract 9.6; RFC 9728, 8414, 7591).
 * @throws ApiError 400 `invalidProvider` when it is no address; `mcpDiscoveryFailed` with the step that failed and why.
 */
export async function discoverMcpProvider(fetch: ProviderFetch, wish: Wish): Promise<DiscoveredProvider> {
  const server = readUrl("mcp_server_url", wish.mcpServerUrl);
  try {
    const resource = await findResource(fetch, server);
    const as = await findAuthorizationServer(
      fetch,
      resource.issuer ?? new URL(server.origin),
      resource.issuer !== null,
    );
    return await register(fetch, wish, { as, resource });
  } catch (error) {
    if (error instanceof ApiError && error.code !== "invalidProvider") throw error;
    throw errors.mcpDiscoveryFailed(error instanceof ApiError ? error.message : failureOf(error).message);
  }
}

interface Resource {
  /** The resource that tokens are asked for (RFC 8707). */
  identifier: string;
  /** null: the server does not say who issues its tokens, as in older revisions of MCP. */
  issuer: URL | null;
  scopes: string[] | null;
}

async function findResource(fetch: ProviderFetch, server: URL): Promise<Resource> {
  const named = await namedMetadata(fetch, server);
  const places: (() => Promise<Response>)[] = [
    ...(named === null ? [] : [() => fetch(named, { headers: { accept: "application/json" } })]),
    () => resourceDiscoveryRequest(server, library(fetch)),
    ...(server.pathname === "/" ? [] : [() => resourceDiscoveryRequest(new URL(server.origin), library(fetch))]),
  ];
  for (const ask of places) {
    const answer = await ask();
    if (answer.status !== 200) continue;
    return readResource(answer, server);
  }
  return { identifier: server.href, issuer: null, scopes: null };
}

/** What the server says when it is asked without a token; `resource_metadata` of its challenge, if there is one. */
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
  // The address asked for, or one that contains it: what protects /mcp may be named by its origin alone.
  const isIts =
    claimed.origin === server.origin && `${server.pathname}/`.startsWith(claimed.pathname.replace(/(?<!\/)\/*$/, "/"));
  if (!isIts) {
    const because = `The metadata of ${server.host} is about another resource (RFC 9728, section 3.3).`;
    throw new OAuthFailure("misconfigured", "other_resource", because);
  }
  const metadata = await processResourceDiscoveryResponse(claimed, answer);
  const [issuer] = metadata.authorization_servers ?? [];
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

/** @param isNamed whether the MCP server named this issuer; if not, one without metadata is as older revisions describe. */
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
    if (!(error instanceof OperationProcessingError)) throw error;
    const because = `The metadata of ${issuer.host} is broken, or names another issuer (RFC 8414, section 3.3).`;
    throw new OAuthFailure("misconfigured", "other_issuer", because);
  }
}

/** MCP asks for PKCE, and servers have to say that they know it. */
function checkedServer(as: AuthorizationServer, issuer: URL): AuthorizationServer {
  if (as.code_challenge_methods_supported?.includes("S256")) return as;
  const because = `${issuer.host} does not offer PKCE with S256, without which codes are not safe.`;
  throw new OAuthFailure("misconfigured", "no_pkce", because);
}

async function register(
  fetch: ProviderFetch,
  wish: Wish,
  { as, resource }: { as: AuthorizationServer; resource: Resource },
): Promise<DiscoveredProvider> {
  const { authorization_endpoint: authUrl, token_endpoint: tokenUrl, registration_endpoint: registrationUrl } = as;
  if (typeof authUrl !== "string" || typeof tokenUrl !== "string") {
    throw new OAuthFailure(
      "misconfigured",
      "no_endpoints",
      "The authorization server does not say where its endpoints are.",
    );
  }
  const draft: ProviderFields = {
    name: wish.name,
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
  // Before anything is registered there: endpoints that we would not use are no reason to register.
  checkProviderSettings(draft, { ...wish, hasSecret: false });
  if (registrationUrl === undefined) {
    const because =
      "The authorization server takes no dynamic registration. Register an application there by hand and create the " +
      `provider with auth_url ${authUrl} and token_url ${tokenUrl}.`;
    throw new OAuthFailure("misconfigured", "no_registration", because);
  }
  const client = await registeredClient(fetch, as, wish);
  const settings = { ...draft, client_id: client.id, token_endpoint_auth_method: client.method };
  checkProviderSettings(settings, { ...wish, hasSecret: client.secret !== null });
  return {
    settings,
    secret: client.secret,
    discovered: {
      names_issuer: as.authorization_response_iss_parameter_supported === true,
      mcp_server_url: wish.mcpServerUrl,
      resource: resource.identifier,
      is_dynamic_client: true,
      scopes_supported: resource.scopes ?? textsOf(as.scopes_supported),
    },
  };
}

async function registeredClient(fetch: ProviderFetch, as: AuthorizationServer, wish: Wish) {
  const wanted = chosenMethod(as);
  const metadata = {
    client_name: `Pierhead: ${wish.name}`,
    redirect_uris: [wish.redirectUri],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: wanted,
  };
  const answer = await dynamicClientRegistrationRequest(as, metadata, library(fetch));
  const client = await processDynamicClientRegistrationResponse(answer.status === 200 ? created(answer) : answer);
  // A server that says nothing of it and gives no secret cannot ask for one.
  const usual = client.client_secret === undefined ? "none" : wanted;
  const method = (client.token_endpoint_auth_method ?? usual) as TokenEndpointAuthMethod;
  if (!methods.includes(method)) {
    const because = "The authorization server registered a way of authentication that was not asked for.";
    throw new OAuthFailure("misconfigured", "invalid_client_metadata", because);
  }
  const secret = method === "none" ? null : (client.client_secret ?? null);
  return { id: client.client_id, secret: secret as string | null, method };
}

/** In order of preference: a secret that is not there cannot be lost, and PKCE protects the code. */
const methods: readonly TokenEndpointAuthMethod[] = ["none", "client_secret_post", "client_secret_basic"];

/** A server that does not say takes Basic (RFC 8414, section 2). */
function chosenMethod(as: AuthorizationServer): TokenEndpointAuthMethod {
  const offered = as.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
  return methods.find((method) => offered.includes(method)) ?? "none";
}

/** The standard says 201; some servers say 200 to the same effect. */
const created = (answer: Response) => new Response(answer.body, { status: 201, headers: answer.headers });

const library = (fetch: ProviderFetch) => ({ [customFetch]: fetch, [allowInsecureRequests]: true });

function textsOf(value: unknown): string[] | null {
  return Array.isArray(value) && value.every((one) => typeof one === "string") ? value.slice(0, 500) : null;
}
