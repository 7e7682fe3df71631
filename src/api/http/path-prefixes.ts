import type { IncomingMessage } from "node:http";

/** Prefixes that a request's path had, taken off before routing; absolute addresses we give out carry them again. */
const prefixes = new WeakMap<IncomingMessage, string>();

/**
 * Gives each request the path that routes know: without the prefix under which this API is mounted, without the aliases
 * some clients put before it, and without trailing slashes. Nobody is ever redirected: clients take a redirect for a
 * failure (contract 1.1, 1.2).
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

/** `/api/v2/...` and `/api/v1/v2/...` are what clients make of an address that names the main API. */
function routedPath(path: string): string {
  // Looked for where slashes begin: else a path of nothing else is read anew from each.
  const bare = path.replace(/^\/api(?:\/v1)?(?=\/v[12]\/)/, "").replace(/(?<!\/)\/+$/, "");
  return bare === "" ? "/" : mendEscapes(bare);
}

/** A stray `%` is text, as other servers read it, not a reason to refuse the request. */
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

/** The prefix a request came under: "" or such as `/api-host`. */
export function mountOf(request: IncomingMessage): string {
  return prefixes.get(request) ?? "";
}

/** Scheme and host as the client addressed us, for absolute URLs when the operator names none. */
export function originOf(request: IncomingMessage): string {
  const forwarded = String(request.headers["x-forwarded-proto"] ?? "")
    .split(",", 1)[0]
    ?.trim();
  const isTls = "encrypted" in request.socket && request.socket.encrypted === true;
  const scheme = forwarded === "https" || forwarded === "http" ? forwarded : isTls ? "https" : "http";
  const host = request.headers.host ?? "";
  return `${scheme}://${hostForm.test(host) ? host : "localhost"}`;
}

const hostForm = /^(?:[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?$/;
