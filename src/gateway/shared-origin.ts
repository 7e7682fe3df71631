import { cookieName, sessionCookie, signInCookie } from "../contract/administration/session.ts";
import type { Address } from "./address.ts";

/**
 * With path routing, all agents answer at the origin of the console. Some response headers change what a browser does with the
 * whole origin, so only headers that concern the response itself pass: others are unknown to this list or to come.
 */
const allowed = new Set([
  ...["accept-patch", "accept-post", "accept-query", "accept-ranges", "age", "allow", "cache-control", "cache-status"],
  ...["cdn-cache-control", "content-digest", "content-disposition", "content-encoding", "content-language"],
  ...["content-length", "content-location", "content-range", "content-security-policy", "content-type"],
  ...["correlation-id", "cross-origin-embedder-policy", "cross-origin-opener-policy", "cross-origin-resource-policy"],
  ...["date", "deprecation", "digest", "etag", "expires", "idempotency-key", "idempotency-replayed", "last-modified"],
  ...["link", "location", "permissions-policy", "pragma", "preference-applied", "priority", "proxy-status"],
  ...["ratelimit", "referrer-policy", "refresh", "repr-digest", "request-id", "retry-after", "server", "server-timing"],
  ...[
    "set-cookie",
    "signature",
    "signature-input",
    "sunset",
    "timing-allow-origin",
    "traceparent",
    "tracestate",
    "vary",
  ],
  ...["via", "warning", "www-authenticate"],
]);

/** CORS, WebSockets, and the own headers of agents and of the frameworks that they use. */
const allowedStarts = [
  ...["x-", "access-control-", "sec-websocket-", "mcp-", "a2a-", "ratelimit-"],
  ...["langgraph-", "langsmith-", "langchain-", "openai-", "anthropic-"],
];

/** Commands to a proxy in front of Pierhead, which would choose its files and addresses, or cache for other users. */
const proxyCommand = /^x-(accel-(?!buffering$)|sendfile|lighttpd-)/;

/** Reports whether a response header of an agent passes although the agent shares its origin with the console. */
export const passesSharedOrigin = (lower: string): boolean =>
  !proxyCommand.test(lower) && (allowed.has(lower) || allowedStarts.some((start) => lower.startsWith(start)));

/**
 * Clears the cookies of the whole registrable domain, which an agent with a host name may share with the console. No agent may
 * send it; it can expire each of its own cookies.
 */
export const clearsSite = "clear-site-data";

/**
 * Returns an agent's `Set-Cookie` as it may reach a browser, or null if it may not. The cookie stays on the agent's host, and with
 * path routing below the agent's path. A name that browsers or the console treat in a special way gets a prefix there, which
 * `agentCookies` removes. A cookie without a name is refused, because a browser sends `=name=value` as `name=value`
 * (RFC 6265bis 5.7).
 */
export function agentSetCookie(text: string, { prefix, path, slug }: Address): string | null {
  const [pair = "", ...attributes] = text.split(";");
  const equals = pair.indexOf("=");
  const name = pair.slice(0, equals).trim();
  if (equals === -1 || !tokenForm.test(name)) return null;
  const kept = attributes.filter((attribute) => !/^\s*domain\s*(?:=|$)/i.test(attribute));
  if (prefix === "") return namesOfConsole.has(name) ? null : [pair, ...kept].join(";");
  const isPath = (attribute: string) => /^\s*path\s*(?:=|$)/i.test(attribute);
  const given = kept.findLast(isPath)?.split("=").slice(1).join("=").trim() ?? "";
  const wanted = given.startsWith("/") ? given : defaultPath(path);
  const isWithin = wanted === prefix || wanted.startsWith(`${prefix}/`);
  const confined = isWithin ? wanted : prefix + (wanted === "/" ? "" : wanted);
  const isReserved = namesOfConsole.has(name) || /^__host/i.test(name) || name.startsWith(reservedStart);
  const own = isReserved ? `${reservedStart}${slug}.${name}${pair.slice(equals)}` : pair;
  return [own, ...kept.filter((attribute) => !isPath(attribute)), ` Path=${confined}`].join(";");
}

/** Returns the cookies of a request as the agent knows them: without the console's, and with its own names. */
export function agentCookies(cookies: string, { prefix, slug }: Address): string {
  const pairs = cookies.split(";").flatMap((pair) => {
    const text = pair.replace(/^[=\s]+/, "");
    const name = text.split("=", 1)[0]?.trim() ?? "";
    if (namesOfConsole.has(name)) return [];
    if (prefix === "" || !name.startsWith(reservedStart)) return [pair.trim()];
    const own = `${reservedStart}${slug}.`;
    return name.startsWith(own) ? [text.slice(own.length)] : [];
  });
  return pairs.join("; ");
}

/** All names of the console's cookies. Agents neither see nor set them. */
const namesOfConsole: ReadonlySet<string> = new Set(
  [sessionCookie, signInCookie].flatMap((name) => [name, cookieName(name, true)]),
);

/** Start of the names that the gateway gives: `d.<slug>.<name>`. */
const reservedStart = "d.";

const tokenForm = /^[\w!#$%&'*+.^`|~-]+$/;

/** Returns the path of a cookie without a `Path` (RFC 6265 5.1.4). */
function defaultPath(path: string): string {
  const [plain = "/"] = path.split("?", 1);
  return plain.slice(0, Math.max(1, plain.lastIndexOf("/")));
}
