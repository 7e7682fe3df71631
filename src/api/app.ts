import { randomUUID } from "node:crypto";
import fastify, { type FastifyInstance } from "fastify";
import { modes } from "../domain/mode.ts";
import type { ApiDeps } from "./deps.ts";
import { addConsole } from "./documents/console-routes.ts";
import { addDocuments } from "./documents/document-routes.ts";
import { guardConsoleCookies } from "./http/console-cookies.ts";
import { allowOrigins } from "./http/cross-origin.ts";
import { answerErrors, answerRefused } from "./http/error-responses.ts";
import { observeRequests } from "./http/observe-requests.ts";
import { createRewrite } from "./http/path-prefixes.ts";
import { parseQuery } from "./http/request-parts.ts";
import { createRoutes } from "./http/route.ts";
import { refuseUnknownRoutes } from "./http/unknown-routes.ts";
import { addRoutes } from "./routes.ts";

/**
 * Creates the HTTP API with all its routes. Serve it with `api.routing(request, response)`. Calls from the same process
 * use `api.routing` too, so they pass the same checks and get the same errors.
 */
export async function createApi(deps: ApiDeps): Promise<FastifyInstance> {
  const { settings } = deps;
  const { pathPrefixes } = modes[settings.mode];
  const server = fastify({
    exposeHeadRoutes: true,
    frameworkErrors: answerRefused,
    genReqId: (request) => sentId(request.headers["x-request-id"]) ?? randomUUID(),
    rewriteUrl: createRewrite([...pathPrefixes, ...pathPrefixes.map((prefix) => settings.basePath + prefix)]),
    // A long path must reach its route and get the answer of that route.
    routerOptions: { maxParamLength: 16_384, querystringParser: parseQuery },
  });
  // Fastify reads no body: each operation reads its own within its limits, whatever the media type.
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", (_request, _payload, done) => done(null, undefined));
  server.addHook("onRequest", async ({ raw }) => {
    // Fastify rejects a malformed media type; clients that send one mean JSON.
    if (!/^[\w.+-]+\/[\w.+*-]+\s*(;.*)?$/.test(raw.headers["content-type"] ?? "")) delete raw.headers["content-type"];
  });

  allowOrigins(server, settings.corsOrigins);
  guardConsoleCookies(server, settings);
  observeRequests(server, deps);
  answerErrors(server, deps.logger);
  const api = createRoutes(server, deps);
  refuseUnknownRoutes(api);
  addRoutes(api);
  addDocuments(api);
  addConsole(api);
  await server.ready();
  return server;
}

/** Returns the id that a client or proxy sent, so that its log and ours can be joined; undefined for an unusable one. */
function sentId(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" && /^[\w.:-]{1,128}$/.test(header) ? header : undefined;
}
