import type { FastifyRequest } from "fastify";
import { digestOf, mintSessionToken } from "../../auth/api-key.ts";
import { OAuthFailure } from "../../auth/oauth/failure.ts";
import { createProviderFetch } from "../../auth/oauth/outbound.ts";
import { Oidc } from "../../auth/oidc.ts";
import { memberSessionHours, signInCookie } from "../../contract/administration/session.ts";
import { operations } from "../../contract/operations.ts";
import { createMemberSession, findMemberships } from "../../store/tenants/sessions.ts";
import { insertSignIn, signInLifeMs, takeSignIn } from "../../store/tenants/sign-ins.ts";
import { cookieNamed } from "../http/authenticate.ts";
import type { Page } from "../http/browser-page.ts";
import { type Api, pageRoute } from "../http/route.ts";
import { sessionCookieText } from "./session-routes.ts";
import { signInCallbackOf } from "./sign-in-urls.ts";

/**
 * Signing in to the console as a person. The way there and back is bound to one browser, and taken once. Everything happens
 * at the public address, whatever name of the server the browser knew it by: cookies and the redirect URI belong to it.
 */
export function addOidcRoutes(api: Api): void {
  const { db, logger, settings } = api.deps;
  // The operator names the provider, no user: it may well be one of the operator's own network.
  const oidc =
    settings.oidc === null ? null : new Oidc(settings.oidc, createProviderFetch({ allowPrivateNetwork: true }));
  const home = () => `${settings.ownUrl().replace(/\/+$/, "")}/`;
  const failed = (line: string): Page => ({ status: 400, title: "Not signed in", lines: [line], back: home() });

  async function orFailedPage(act: () => Promise<Page>): Promise<Page> {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof OAuthFailure)) throw error;
      logger.info({ reason: error.reason }, "a member could not sign in");
      return failed(error.message);
    }
  }

  pageRoute(api, operations.beginSignIn, ({ request, setCookie }) => {
    if (oidc === null) return failed(notSetUp);
    api.limits.countSignIn(request);
    if (isHead(request)) return headPage;
    return orFailedPage(async () => {
      const secret = mintSessionToken();
      const location = await oidc.begin(secret, signInCallbackOf(settings));
      await insertSignIn(db, digestOf(secret));
      setCookie(signInCookieText(home(), secret, signInLifeMs));
      return { status: 303, title: "Sign in", lines: [], location };
    });
  });

  pageRoute(api, operations.finishSignIn, ({ request, setCookie }) => {
    if (oidc === null) return failed(notSetUp);
    // Whoever only asks whether the page is there, as programs do that show previews of links, spends no code.
    if (isHead(request)) return headPage;
    return orFailedPage(async () => {
      const parameters = new URLSearchParams(request.raw.url?.split("?").slice(1).join("?") ?? "");
      const secret = cookieNamed(request.headers, signInCookie);
      if (secret === undefined || !oidc.isAnswerTo(secret, parameters)) return failed(notBegun);
      if (!(await takeSignIn(db, digestOf(secret)))) return failed(notBegun);
      const email = await oidc.finish(secret, parameters, signInCallbackOf(settings));
      const memberships = await findMemberships(db, email);
      if (memberships.length === 0) {
        logger.info({ reason: "no_member" }, "a member could not sign in");
        return failed(`${email} is not a member here. Ask an administrator to add that address to the members.`);
      }
      const token = mintSessionToken();
      const expiresAt = new Date(db.now().getTime() + memberSessionHours * 3_600_000);
      await createMemberSession(db, { tokenHash: digestOf(token), memberships, email, expiresAt });
      setCookie(signInCookieText(home(), "", 0));
      setCookie(sessionCookieText(token, expiresAt, home().startsWith("https:")));
      return { status: 303, title: "Signed in", lines: [], location: home() };
    });
  });
}

const isHead = ({ method }: FastifyRequest) => method === "HEAD";

const headPage: Page = { status: 200, title: "Sign in", lines: [] };

const notSetUp = "Sign-in of members is not set up on this server. An API key signs in.";

/** Every way in which an answer is nobody's reads the same: who tries learns nothing. */
const notBegun = "This sign-in was not begun in this browser, has ended already, or took too long. Start it again.";

/** Lax: the provider's page leads back here, which for `Strict` would be somebody else's doing. */
function signInCookieText(home: string, secret: string, lifeMs: number): string {
  const secure = home.startsWith("https:") ? "; Secure" : "";
  return `${signInCookie}=${secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${lifeMs / 1_000}${secure}`;
}
