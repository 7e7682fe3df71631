import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { TrustedProxies } from "../base/trusted-proxies.ts";
import type { Address } from "./address.ts";
import {
  type AdmittedCaller,
  callerHeader,
  headersAboutCaller,
  isKeyHeader,
  isOwnKey,
  mayAgentSee,
} from "./caller-headers.ts";
import { dataOnly, nameForAgent, passesFromConsole, passesToConsole } from "./console-call.ts";
import { agentCookies, agentSetCookie, clearsSite, passesSharedOrigin } from "./shared-origin.ts";

/** Headers as Node keeps them: name, value, name, value, in order, with repetitions. */
export type RawHeaders = string[];

/** Sent with every answer of a deployment, including the gateway's own. */
export const revisionHeader = "x-pierhead-revision";
const requestIdHeader = "x-request-id";

/** Headers for a single connection, which are never forwarded (RFC 9110 7.6.1, 11.7.1). */
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

/** Headers that the gateway sets itself or drops. Node's server has answered `expect` before the gateway sees the request. */
const rewritten = new Set(["host", "expect", "forwarded", "x-real-ip", requestIdHeader, callerHeader]);

export interface ForwardedOptions {
  /** Scheme of the public URL. Null: the scheme of the connection. */
  publicScheme: string | null;
  /** The operator's proxies, whose `x-forwarded-*` headers are true. */
  trustedProxies: TrustedProxies;
}

export interface RequestOptions {
  address: Address;
  requestId: string;
  caller: AdmittedCaller | null;
  isFromConsole: boolean;
}

/**
 * Returns the headers for the agent server. `Host` stays as the client sent it. A credential that was checked is replaced by an
 * assertion about the caller. Without a trusted proxy, the client's own
 * `x-forwarded-*` headers are dropped, so an agent server may believe every one it receives.
 */
export function requestHeaders(
  request: IncomingMessage,
  { address, requestId, caller, isFromConsole }: RequestOptions,
  options: ForwardedOptions,
): RawHeaders {
  const headers: RawHeaders = ["host", address.authority];
  const perHop = connectionOptions(request.headers.connection);
  const given = isFromConsole ? headersForAgent(request.rawHeaders) : null;
  forEachHeader(request.rawHeaders, (name, value, lower) => {
    if (isOwn(lower) || (lower.includes("_") && imitates(lower, caller))) return;
    if (perHop?.has(lower) || (isFromConsole && !passesFromConsole(lower))) return;
    if (caller !== null && isKeyHeader(lower) && !mayAgentSee(lower, value, caller)) return;
    const forwarded = lower === "cookie" ? agentCookies(value, address) : value;
    if (forwarded !== "") headers.push(name, forwarded);
  });
  const peer = request.socket.remoteAddress ?? "unknown";
  const isTrusted = options.trustedProxies.has(peer);
  const earlier = (name: string) => (isTrusted ? request.headers[name]?.toString() : undefined);
  const chain = earlier("x-forwarded-for");
  headers.push("x-forwarded-for", chain === undefined ? peer : `${chain}, ${peer}`);
  headers.push("x-forwarded-proto", earlier("x-forwarded-proto") ?? options.publicScheme ?? schemeOf(request.socket));
  headers.push("x-forwarded-host", earlier("x-forwarded-host") ?? address.authority);
  const prefix = (earlier("x-forwarded-prefix") ?? "") + address.prefix;
  if (prefix !== "") headers.push("x-forwarded-prefix", prefix);
  headers.push(requestIdHeader, requestId);
  if (caller !== null) {
    forEachHeader(headersAboutCaller(caller), (name, value) => {
      if (!given?.has(name)) headers.push(name, value);
    });
  }
  for (const [name, value] of given ?? []) headers.push(name, value);
  return headers;
}

/**
 * Returns whether an agent server may take a name for one that the gateway sets or checks: CGI, WSGI, Rack and PHP turn dashes into
 * underscores, so `X_Forwarded_For` is `X-Forwarded-For` there.
 */
function imitates(lower: string, caller: AdmittedCaller | null): boolean {
  const name = lower.replaceAll("_", "-");
  return isOwn(name) || (caller !== null && isKeyHeader(name));
}

const isOwn = (lower: string) => hopByHop.has(lower) || rewritten.has(lower) || lower.startsWith("x-forwarded-");

/** Returns the headers that a user of the console entered for an agent. They replace headers about the caller of the same name. */
function headersForAgent(raw: RawHeaders): Map<string, string> {
  const given = new Map<string, string>();
  forEachHeader(raw, (_name, value, lower) => {
    const name = nameForAgent(lower);
    if (name !== null && !isOwn(name.replaceAll("_", "-")) && !isOwnKey(value)) given.set(name, value);
  });
  return given;
}

/** Returns the header that frames the request body for the agent server: exactly one, or none when there is no body. */
export function framingHeaders(request: IncomingMessage): RawHeaders {
  if (request.headers["transfer-encoding"] !== undefined) return ["transfer-encoding", "chunked"];
  return request.headers["content-length"] === undefined && mayHaveBody(request.method) ? ["content-length", "0"] : [];
}

export interface AnswerOptions {
  address: Address;
  /** Address of the agent server, and the port that it knows as its own if that is another one. */
  server: { host: string; port: number; agentPort: number | null } | null;
  isFromConsole: boolean;
  revisionId: string | null;
  requestId: string;
}

/** Returns the headers for the client. Node frames the body itself. */
export function answerHeaders(answer: IncomingMessage, options: AnswerOptions): RawHeaders {
  const headers: RawHeaders = ownHeaders(options);
  const { address, server, isFromConsole } = options;
  if (isFromConsole) headers.push(...dataOnly);
  const isShared = address.prefix !== "";
  if (isShared && answer.statusCode !== 101) headers.push("content-security-policy", sandbox);
  const perHop = connectionOptions(answer.headers.connection);
  forEachHeader(answer.rawHeaders, (name, value, lower) => {
    if (hopByHop.has(lower) || lower === revisionHeader || lower === requestIdHeader) return;
    if (perHop?.has(lower) || (lower === "content-length" && answer.statusCode === 204)) return;
    if (isFromConsole && !passesToConsole(lower)) return;
    if (lower === clearsSite || (isShared && !passesSharedOrigin(lower))) return;
    const sent = forBrowser(lower, value, { address, server });
    if (sent !== null) headers.push(name, sent);
  });
  return headers;
}

/** Returns a header value of an agent as browsers must see it, or null for a header that must not reach them. */
function forBrowser(
  lower: string,
  value: string,
  { address, server }: Pick<AnswerOptions, "address" | "server">,
): string | null {
  if (lower === "location") return publicLocation(withoutOwnOrigin(value, server), address);
  return lower === "set-cookie" ? agentSetCookie(value, address) : value;
}

export function ownHeaders({ revisionId, requestId }: Pick<AnswerOptions, "revisionId" | "requestId">): RawHeaders {
  const headers: RawHeaders = [requestIdHeader, requestId];
  if (revisionId !== null) headers.push(revisionHeader, revisionId);
  return headers;
}

/** Returns the client's request id if it is safe in logs and headers, else a new one. */
export function requestIdOf(request: IncomingMessage, create: () => string): string {
  const given = request.headers[requestIdHeader];
  return typeof given === "string" && /^[\w.:+/=-]{1,128}$/.test(given) ? given : create();
}

/**
 * Returns a redirect within the agent server as the client must request it: with path routing, `/docs/` becomes
 * `/d/<slug>/docs/`. Leaves redirects that already have the prefix (from servers that read `x-forwarded-prefix`) or that
 * lead elsewhere.
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
 * Returns a redirect to the address at which the agent server listens without that address, which leads nowhere for the client. Next.js
 * redirects there from its middleware, because it does not read the Host header. The answer of an authorization server (RFC 6749 4.1.2)
 * stays, because it goes to a program on the user's machine, which may listen at the same port.
 */
function withoutOwnOrigin(location: string, server: AnswerOptions["server"]): string {
  const [origin = "", host = "", port = ""] =
    /^https?:\/\/([^/?#@:]*|\[[^\]/?#@]*\]):(\d+)(?=[/?#]|$)/i.exec(location) ?? [];
  if (server === null || Number(port) !== (server.agentPort ?? server.port)) return location;
  const rest = location.slice(origin.length);
  if (!(localNames.has(host) || host === server.host) || answersAuthorization(rest)) return location;
  return rest.startsWith("/") && !rest.startsWith("//") ? rest : `/${rest.replace(/^\/+/, "")}`;
}

function answersAuthorization(path: string): boolean {
  const query = new URLSearchParams(path.split("#", 1)[0]?.split("?", 2)[1]);
  return query.has("code") || (query.has("error") && query.has("state"));
}

const localNames = new Set(["localhost", "127.0.0.1", "0.0.0.0", "[::1]", "[::]"]);

/**
 * With path routing, an agent shares its origin with the console. The sandbox gives its pages an origin of their own:
 * otherwise their scripts could act as the signed-in user who views them. With host names they have their own anyway.
 */
const sandbox = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

/** Returns the headers that a `Connection` header declares hop-by-hop. A client cannot remove framing and routing headers. */
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
