import type { FastifyInstance } from "fastify";
import { errorHeader, hintHeader } from "../../contract/error.ts";

/** Headers that a page of another origin may send. The console's own is not one of them, so no such page can use a session. */
const sent = [
  ...["accept", "authorization", "content-type", "idempotency-key", "if-match", "if-none-match", "last-event-id"],
  ...["x-api-key", "x-organization-id", "x-request-id", "x-tenant-id", "x-user-id"],
].join(", ");

/** Headers of responses that such a page may read, beside the few that browsers always show. */
const read = ["etag", "location", "retry-after", "x-request-id", errorHeader, hintHeader].join(", ");

/** How long a browser may keep the answer to a preflight request. Browsers shorten it to their own maximum. */
const preflightSeconds = 600;

/**
 * Lets pages of the given origins call the API with a key (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol). Cookies are
 * never allowed, so a page acts only with a key that its user gave it. The headers are set on the connection's own response,
 * because event streams write to that.
 */
export function allowOrigins(server: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  server.addHook("onRequest", async ({ raw }, reply) => {
    const { origin } = raw.headers;
    // Caches must not answer a page of one origin with a response for another.
    reply.raw.setHeader("vary", "Origin");
    if (origin === undefined || !origins.includes(origin)) return;
    reply.raw.setHeader("access-control-allow-origin", origin);
    reply.raw.setHeader("access-control-expose-headers", read);
    const method = raw.headers["access-control-request-method"];
    if (raw.method !== "OPTIONS" || method === undefined) return;
    reply.raw.setHeader("access-control-allow-methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
    reply.raw.setHeader("access-control-allow-headers", sent);
    reply.raw.setHeader("access-control-max-age", String(preflightSeconds));
    return reply.code(204).send();
  });
}

/**
 * Reads a comma-separated list of origins such as `https://app.example.org`.
 * @throws Error naming the entry that is not an origin.
 */
export function readOrigins(list: string | undefined): string[] {
  const entries = (list ?? "").split(",").map((entry) => entry.trim());
  return entries
    .filter((entry) => entry !== "")
    .map((entry) => {
      const url = URL.parse(entry);
      if (url !== null && /^https?:$/.test(url.protocol) && url.origin === entry.replace(/\/$/, "")) return url.origin;
      throw new Error(`PIERHEAD_CORS_ORIGINS must be origins such as https://app.example.org, got "${entry}"`);
    });
}
