import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { sessionCookie, signInCookie } from "../contract/administration/session.ts";
import type { Address } from "./address.ts";

/** Headers as node keeps them on the wire: name, value, name, value, in order, repeats forwarded. */
export type RawHeaders = string[];

/** Sent with every answer of a deployment, ours included. */
export const revisionHeader = "x-pierhead-revision";
export const requestIdHeader = "x-request-id";

/** Mean something between two neighbours only and are never passed on (RFC 9110 7.6.1, 11.7.1). */
const hopByHop = new Set([
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Written anew for the agent server. `expect` has been answered by node's server before we see the request. */
const rewritten = new Set(["host", "expect", "forwarded", "x-real-ip", requestIdHeader]);

export interface ForwardedOptions {
  /** Scheme of the public URL; null: that of the connection. */
  publicScheme: string | null;
  /** Whether the peer is a proxy of ours whose `x-forwarded-*` are true. */
  trustsForwarded: boolean;
}

/**
 * Headers for the agent server. `Host` stays what the client asked for. Without trust the client's own words on where
 * it comes from are dropped, so an agent server may believe every `x-forwarded-*` it sees.
 */
export function requestHeaders(
  request: IncomingMessage,
  { address, requestId }: { address: Address; requestId: string },
  options: ForwardedOptions,
): RawHeaders {
  const headers: RawHeaders = ["host", address.authority];
  const perHop = connectionOptions(request.headers.connection);
  forEachHeader(request.rawHeaders, (name, value, lower) => {
    if (hopByHop.has(lower) || rewritten.has(lower) || lower.startsWith("x-forwarded-")) return;
    if (perHop?.has(lower)) return;
    const forwarded = lower === "cookie" ? withoutConsoleCookies(value) : value;
    if (forwarded !== "") headers.push(name, forwarded);
  });
  const earlier = (name: string) => (options.trustsForwarded ? request.headers[name]?.toString() : undefined);
  const peer = request.socket.remoteAddress ?? "unknown";
  const chain = earlier("x-forwarded-for");
  headers.push("x-forwarded-for", chain === undefined ? peer : `${chain}, ${peer}`);
  headers.push("x-forwarded-proto", earlier("x-forwarded-proto") ?? options.publicScheme ?? schemeOf(request.socket));
  headers.push("x-forwarded-host", earlier("x-forwarded-host") ?? address.authority);
  const prefix = (earlier("x-forwarded-prefix") ?? "") + address.prefix;
  if (prefix !== "") headers.push("x-forwarded-prefix", prefix);
  headers.push(requestIdHeader, requestId);
  return headers;
}

/** How the request's body is framed towards the agent server: exactly one header, or none when there is no body. */
export function framingHeaders(request: IncomingMessage): RawHeaders {
  if (request.headers["transfer-encoding"] !== undefined) return ["transfer-encoding", "chunked"];
  return request.headers["content-length"] === undefined && mayHaveBody(request.method) ? ["content-length", "0"] : [];
}

export interface AnswerOptions {
  address: Address;
  revisionId: string | null;
  requestId: string;
}

/** Headers for the client; node frames the body anew. */
export function answerHeaders(answer: IncomingMessage, options: AnswerOptions): RawHeaders {
  const headers: RawHeaders = ownHeaders(options);
  if (options.address.prefix !== "" && answer.statusCode !== 101) headers.push("content-security-policy", sandbox);
  const perHop = connectionOptions(answer.headers.connection);
  forEachHeader(answer.rawHeaders, (name, value, lower) => {
    if (hopByHop.has(lower) || lower === revisionHeader || lower === requestIdHeader) return;
    if (perHop?.has(lower) || (lower === "content-length" && answer.statusCode === 204)) return;
    if (lower === "set-cookie" && isConsoleCookie(value)) return;
    headers.push(name, lower === "location" ? publicLocation(value, options.address) : value);
  });
  return headers;
}

export function ownHeaders({ revisionId, requestId }: Omit<AnswerOptions, "address">): RawHeaders {
  const headers: RawHeaders = [requestIdHeader, requestId];
  if (revisionId !== null) headers.push(revisionHeader, revisionId);
  return headers;
}

/** The client's own id when it is harmless in logs and headers, else a new one. */
export function requestIdOf(request: IncomingMessage, create: () => string): string {
  const given = request.headers[requestIdHeader];
  return typeof given === "string" && /^[\w.:+/=-]{1,128}$/.test(given) ? given : create();
}

/**
 * A redirect within the agent server, as the client must write it: routed by path, `/docs/` is `/d/<slug>/docs/`.
 * Redirects that already carry the prefix (servers that read `x-forwarded-prefix`) or lead elsewhere stay.
 */
function publicLocation(location: string, { prefix, authority }: Address): string {
  if (prefix === "") return location;
  const [origin = ""] = /^https?:\/\/[^/?#]*/i.exec(location) ?? [];
  if (origin.slice(origin.indexOf("//") + 2) !== authority && origin !== "") return location;
  const path = location.slice(origin.length);
  const isWithinServer = path.startsWith("/") && !path.startsWith("//");
  const isPublic = path === prefix || path.startsWith(`${prefix}/`);
  return isWithinServer && !isPublic ? `${origin}${prefix}${path}` : location;
}

/**
 * Routed by path, an agent shares its origin with the console. Its pages get an origin of their own: otherwise their
 * scripts could do whatever the person can who looks at them and is signed in. By host name they have one anyway.
 */
const sandbox = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

/** Browsers send cookies to every port of a host: an agent must never see who is signed in to the console. */
function withoutConsoleCookies(cookies: string): string {
  if (!cookies.includes(sessionCookie) && !cookies.includes(signInCookie)) return cookies;
  const others = cookies.split(";").filter((pair) => !isConsoleCookie(pair));
  return others.join(";").trim();
}

/**
 * Is that pair of name and value the console's? A browser takes `=name=value` for a cookie without a name, and sends it as
 * `name=value` (RFC 6265bis 5.7).
 */
const isConsoleCookie = (pair: string) => {
  const [name = ""] = pair.replace(/^[=\s]+/, "").split("=", 1);
  return [sessionCookie, signInCookie].includes(name.trim());
};

/** Names a `Connection` header adds to the hop-by-hop ones; framing and routing are not the sender's to take away. */
function connectionOptions(connection: string | undefined): Set<string> | null {
  if (connection === undefined || /^(keep-alive|close|upgrade)$/i.test(connection)) return null;
  const names = connection.split(",").map((name) => name.trim().toLowerCase());
  return new Set(names.filter((name) => name !== "content-length" && name !== "host"));
}

const mayHaveBody = (method: string | undefined) => method === "POST" || method === "PUT" || method === "PATCH";

const schemeOf = (socket: Socket) => ((socket as Partial<TLSSocket>).encrypted ? "https" : "http");

function forEachHeader(raw: RawHeaders, visit: (name: string, value: string, lower: string) => void): void {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] as string;
    visit(name, raw[at + 1] as string, name.toLowerCase());
  }
}
