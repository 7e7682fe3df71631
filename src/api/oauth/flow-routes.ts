import type { FastifyRequest } from "fastify";
import { authenticate } from "../../auth/oauth/authenticate.ts";
import type { OAuthDeps } from "../../auth/oauth/deps.ts";
import { finishRequest, type RequestEnd } from "../../auth/oauth/finish-request.ts";
import { waitForRequest } from "../../auth/oauth/wait.ts";
import { recheckPrincipal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { isInstallationState } from "../../store/code-hosts/installation-links.ts";
import { credentialsOf } from "../http/authenticate.ts";
import type { Page } from "../http/browser-page.ts";
import { type Api, pageRoute, route } from "../http/route.ts";
import { finishInstallation } from "../integrations/finish-installation.ts";
import { oauthCallerOf } from "./oauth.ts";

/** Adds the routes by which agents get tokens, and the pages that users see (contract 9.3, 9.4, 9.7). */
export function addAuthFlowRoutes(api: Api, oauth: OAuthDeps): void {
  route(api, operations.authenticate, ({ principal, body, request }) =>
    authenticate(oauth, oauthCallerOf(principal, request), body),
  );

  route(api, operations.waitForAuth, async ({ principal, params, query, request, signal }) => {
    const asked = { authId: params.auth_id, timeoutS: query.timeout, signal };
    const answer = await waitForRequest(oauth, oauthCallerOf(principal, request), asked);
    // The wait may take ten minutes: a key that has expired or was revoked meanwhile must not get the token.
    if (answer.token !== null) {
      await recheckPrincipal(api.keyring, credentialsOf(request.headers), operations.waitForAuth.role, principal);
    }
    return answer;
  });

  route(api, operations.finishAuthRequest, async ({ principal, params, body, request }) => {
    const { code, state, iss } = body;
    const parameters = new URLSearchParams({ code, state, ...(iss != null && { iss }) });
    const by = oauthCallerOf(principal, request);
    const end = await finishRequest(oauth, { provider: params.provider_id, parameters, by });
    if (end.kind === "failed") {
      throw end.request === undefined ? errors.authRequestUnusable() : errors.authRequestFailed(end.message);
    }
    // The token itself is only for callers that may ask for it, not for a page that submits a code.
    const metadata = { scopes: end.scopes, token_id: end.tokenId };
    const { id, user_id } = end.request;
    return { status: "completed" as const, url: null, auth_id: id, token: null, user_id, metadata, expires_at: null };
  });

  const receive = ({ params, request }: { params: { provider_id: string }; request: FastifyRequest }) =>
    receiveAnswer(oauth, params.provider_id, request);
  pageRoute(api, operations.receiveCallback, receive);
  pageRoute(api, operations.receiveCallbackAlias, receive);

  pageRoute(api, operations.setupGithubApp, ({ params, query, request, signal }) => {
    const { state } = query;
    if (state !== undefined && isInstallationState(state)) {
      return request.method === "HEAD" ? setUpPage("") : finishInstallation(api.deps, { ...query, state }, signal);
    }
    if (query.state !== undefined) return receiveAnswer(oauth, params.provider_id, request);
    if (query.error !== undefined) return failedPage("GitHub did not set up the App.");
    if (query.setup_action === "request")
      return setUpPage("GitHub asked an owner of the organization to approve the App.");
    if (query.setup_action === undefined)
      return failedPage("GitHub redirects to this address after it has set up the App.");
    return setUpPage("The GitHub App is set up.");
  });
}

async function receiveAnswer(oauth: OAuthDeps, provider: string, request: FastifyRequest): Promise<Page> {
  const parameters = new URLSearchParams(request.raw.url?.split("?").slice(1).join("?") ?? "");
  // A HEAD request, as link previews send it, must not spend the code.
  if (request.method === "HEAD") return parameters.has("state") ? setUpPage("") : failedPage("");
  return pageOf(await finishRequest(oauth, { provider, parameters, by: "browser" }));
}

const done = "You can close this window and go back to where you came from.";

const setUpPage = (line: string): Page => ({ status: 200, title: "Set up", lines: [line, done] });
const failedPage = (line: string): Page => ({ status: 400, title: "Not connected", lines: [line] });

function pageOf(end: RequestEnd): Page {
  const facts = factsOf(end);
  if (end.kind === "failed") return { ...failedPage(end.message), facts };
  const lines = [`${end.provider.name} is connected.`, done];
  return { status: 200, title: "Connected", lines, facts };
}

/** Shows whose sign-in this is, so that one user cannot trick another into giving consent. */
function factsOf({ provider, request }: RequestEnd): [string, string][] {
  if (provider === undefined || request === undefined) return [];
  const { agent_id: agent, user_id: user } = request;
  return [
    ["Provider", `${provider.name} (${new URL(provider.auth_url).host})`],
    ["Agent", agent ?? "any agent of the workspace"],
    ["User", user === null ? "the agent itself" : user.startsWith("key:") ? "the API key of the request" : user],
  ];
}
