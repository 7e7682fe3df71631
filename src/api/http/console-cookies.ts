import type { IncomingMessage } from "node:http";
import type { FastifyInstance } from "fastify";
import { cookieName, sessionCookie, signInCookie } from "../../contract/administration/session.ts";
import type { ApiSettings } from "../deps.ts";
import { isSecure } from "./path-prefixes.ts";

/**
 * Adds the hook that reads the console's cookies before anything else does. Over https only names with `__Host-` count. Of
 * several cookies with one name, none counts: a page of another name under the same domain may have set one of them, and its
 * session would be another user's. The response then expires all that another page can have set. The console's own cookie stays:
 * without it, a planted cookie that this request did not carry would be the only one of the next.
 */
export function guardConsoleCookies(server: FastifyInstance, settings: ApiSettings): void {
  server.addHook("onRequest", async ({ raw, originalUrl }, reply) => {
    const { cookie } = raw.headers;
    if (cookie === undefined) return;
    const pairs = cookie.split(";").map((pair) => pair.trim());
    const kept: string[] = [];
    for (const name of [sessionCookie, signInCookie]) {
      const sent = cookieName(name, isSecure(raw, settings));
      const found = pairs.filter((pair) => pair.startsWith(`${sent}=`));
      if (found.length === 1) kept.push(`${name}${found[0]?.slice(sent.length)}`);
      if (found.length > 1) for (const text of expiries(sent, raw, originalUrl)) reply.header("set-cookie", text);
    }
    if (kept.length === 0) delete raw.headers.cookie;
    else raw.headers.cookie = kept.join("; ");
  });
}

/** More levels of domains and of paths than the console has. */
const levelsMax = 4;

/**
 * Returns the `Set-Cookie` texts that expire every cookie of a name that a browser can have sent with this request, but the
 * console's own: those of the host and of the domains above it, for the path and those above it, and those that have no name but
 * begin with it.
 */
function expiries(name: string, { headers }: IncomingMessage, url: string): string[] {
  const host = (headers.host ?? "").replace(/:\d+$/, "");
  const labels = /^[\d.]+$|^\[/.test(host) ? [] : host.split(".");
  const domains = labels.slice(0, levelsMax).map((_, at) => `; Domain=${labels.slice(at).join(".")}`);
  const segments = (url.split("?", 1)[0] ?? "/").split("/").slice(1, levelsMax + 1);
  const paths = segments.flatMap((_, at) => {
    const path = `/${segments.slice(0, at + 1).join("/")}`;
    return path === "/" ? [] : [path, `${path}/`];
  });
  const places = ["", ...domains].flatMap((domain) =>
    ["/", ...paths].map((path) => `; Path=${path}${domain}; Max-Age=0`),
  );
  const secure = name.startsWith("__Host-") ? "; Secure" : "";
  const [, ...others] = places.map((place) => `${name}=${place}${secure}`);
  // Only the console's host can set a cookie for itself alone, and the console sets it for all paths.
  return [...others, ...places.map((place) => `=x${place}${secure}`)];
}
