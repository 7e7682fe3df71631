import type { FastifyRequest } from "fastify";
import { digestOf, mintSessionToken } from "../../auth/api-key.ts";
import { OAuthFailure } from "../../auth/oauth/failure.ts";
import { createProviderFetch } from "../../auth/oauth/outbound.ts";
import { Oidc } from "../../auth/oidc.ts";
import { cookieName, memberSessionHours, signInCookie } from "../../contract/administration/session.ts";
import { operations } from "../../contract/operations.ts";
import { createMemberSession, findMemberships } from "../../store/tenants/sessions.ts";
import { consumeSignIn, insertSignIn, signInLifeMs } from "../../store/tenants/sign-ins.ts";
import { cookieNamed } from "../http/authenticate.ts";
import type { Page } from "../http/browser-page.ts";
import { isSecure } from "../http/path-prefixes.ts";
import { type Api, pageRoute } from "../http/route.ts";
import { sessionCookieText } from "./session-routes.ts";
import { signInCallbackOf } from "./sign-in-urls.ts";

/**
 * Adds the routes by which members sign in to the console. A sign-in is bound to one browser and can be finished once.
 * It always runs at the public address, whatever name of the server the browser used, because the cookie and the
 * redirect URI belong to that address.
 */
export function addOidcRoutes(api: Api): void {
  const { db, logger, settings } = api.deps;
  // The operator chose the provider, not a user, so it may be on a private network.
  const oidc =
    settings.oidc === null ? null : new Oidc(settings.oidc, createProviderFetch({ allowPrivateNetwork: true }));
  const home = () => `${settings.ownUrl().replace(/\/+$/, "")}/`;
  const failed = (line: string): Page => ({ status: 400, title: "Not signed in", lines: [line], back: home() });

  async function orFailedPage(act: () => Promise<Page>): Promise<Page> {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof OAuthFailure)) throw error;
      logger.info({ reason: error.reason }, "member sign-in failed");
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
      setCookie(signInCookieText(secret, signInLifeMs, isSecure(request.raw, settings)));
      return { status: 303, title: "Sign in", lines: [], location };
    });
  });

  pageRoute(api, operations.finishSignIn, ({ request, setCookie }) => {
    if (oidc === null) return failed(notSetUp);
    // A HEAD request, as link previews send it, must not spend the code.
    if (isHead(request)) return headPage;
    return orFailedPage(async () => {
      const parameters = new URLSearchParams(request.raw.url?.split("?").slice(1).join("?") ?? "");
      const secret = cookieNamed(request.headers, signInCookie);
      if (secret === undefined || !oidc.isAnswerTo(secret, parameters)) return failed(notBegun);
      if (!(await consumeSignIn(db, digestOf(secret)))) return failed(notBegun);
      const email = await oidc.finish(secret, parameters, signInCallbackOf(settings));
      const memberships = await findMemberships(db, email);
      if (memberships.length === 0) {
        logger.info({ reason: "no_member" }, "member sign-in failed");
        return failed(`${email} is not a member of this server. Ask an administrator to add this address as a member.`);
      }
      const token = mintSessionToken();
      const expiresAt = new Date(db.now().getTime() + memberSessionHours * 3_600_000);
      await createMemberSession(db, { tokenHash: digestOf(token), memberships, email, expiresAt });
      const isTls = isSecure(request.raw, settings);
      setCookie(signInCookieText("", 0, isTls));
      setCookie(sessionCookieText(token, expiresAt, isTls));
      return { status: 303, title: "Signed in", lines: [], location: home() };
    });
  });
}

const isHead = ({ method }: FastifyRequest) => method === "HEAD";

const headPage: Page = { status: 200, title: "Sign in", lines: [] };

const notSetUp = "Member sign-in is not set up on this server. Sign in with an API key instead.";

/** One text for every unusable sign-in, so that an attacker learns nothing from it. */
const notBegun = "This sign-in was not started in this browser, was already completed, or took too long. Start again.";

/** Returns a `Lax` cookie: the provider's page redirects here, and browsers would not send a `Strict` one. */
function signInCookieText(secret: string, lifeMs: number, isTls: boolean): string {
  const secure = isTls ? "; Secure" : "";
  return `${cookieName(signInCookie, isTls)}=${secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${lifeMs / 1_000}${secure}`;
}
