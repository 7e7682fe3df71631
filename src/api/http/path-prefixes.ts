import type { IncomingMessage } from "node:http";
import type { TrustedProxies } from "../../base/trusted-proxies.ts";

/** Prefix that was removed from each request's path before routing; the absolute URLs we return include it again. */
const prefixes = new WeakMap<IncomingMessage, string>();

/**
 * Returns the function that rewrites a request's path to the one that routes use: without the prefix under which the
 * API is mounted, without the aliases that some clients add, and without trailing slashes. The server never redirects,
 * because clients treat a redirect as a failure (contract 1.1, 1.2).
 */
export function createRewrite(mounts: readonly string[]): (request: IncomingMessage) => string {
  const longestFirst = [...mounts].filter((mount) => mount !== "").sort((a, b) => b.length - a.length);
  return (request) => {
    const url = request.url ?? "/";
    const end = url.search(/[?#]/);
    const path = end < 0 ? url : url.slice(0, end);
    const prefix = longestFirst.find((mount) => path === mount || path.startsWith(`${mount}/`)) ?? "";
    if (prefix !== "") prefixes.set(request, prefix);
    return routedPath(path.slice(prefix.length)) + (end < 0 ? "" : url.slice(end));
  };
}

/** Removes `/api` and `/api/v1`, which clients add when they are configured with the address of the main API. */
function routedPath(path: string): string {
  // The look-behind anchors the match at the first slash; without it, a path of slashes only takes quadratic time.
  const bare = path.replace(/^\/api(?:\/v1)?(?=\/v[12]\/)/, "").replace(/(?<!\/)\/+$/, "");
  return bare === "" ? "/" : mendEscapes(bare);
}

/** Escapes a stray `%`: other servers read it as text and do not reject the request. */
function mendEscapes(path: string): string {
  if (!path.includes("%")) return path;
  const mended = path.replace(/%(?![0-9a-fA-F]{2})/g, "%25");
  try {
    decodeURIComponent(mended);
    return mended;
  } catch {
    return mended.replace(/%[89a-fA-F][0-9a-fA-F]/g, "%EF%BF%BD");
  }
}

/** Returns the prefix that the request came with, such as `/api-host`; "" for none. */
export function mountOf(request: IncomingMessage): string {
  return prefixes.get(request) ?? "";
}

/** Returns scheme and host as the client addressed this server, for absolute URLs when the operator configured none. */
export function originOf(request: IncomingMessage, trusted: TrustedProxies): string {
  const given = trusted.has(request.socket.remoteAddress) ? request.headers["x-forwarded-proto"] : undefined;
  const forwarded = String(given ?? "")
    .split(",", 1)[0]
    ?.trim();
  const isTls = "encrypted" in request.socket && request.socket.encrypted === true;
  const scheme = forwarded === "https" || forwarded === "http" ? forwarded : isTls ? "https" : "http";
  const host = request.headers.host ?? "";
  return `${scheme}://${hostForm.test(host) ? host : "localhost"}`;
}

/** Returns whether browsers reach this server over https: as the operator says, or as this request came. */
export function isSecure(
  request: IncomingMessage,
  { publicUrl, trustedProxies }: { publicUrl: string | null; trustedProxies: TrustedProxies },
): boolean {
  return (publicUrl ?? originOf(request, trustedProxies)).startsWith("https:");
}

const hostForm = /^(?:[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?$/;
