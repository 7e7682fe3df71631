import { randomUUID } from "node:crypto";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { OidcSettings } from "../../auth/oidc.ts";
import type { DeploymentDebug } from "../../contract/administration/debug.ts";
import type { Mode, Region } from "../../contract/administration/info.ts";
import { errorHeader, errors } from "../../contract/error.ts";
import { bodyBytesMax } from "../../domain/limits.ts";
import { modes } from "../../domain/mode.ts";
import type { TracingBackend } from "../../domain/tracing.ts";
import type { GithubApps } from "../../integrations/github-app.ts";
import type { TracingProjects } from "../../integrations/langsmith-projects.ts";
import type { Signer } from "../../registry/access-token.ts";
import type { Db } from "../../store/engine/database.ts";
import type { EventFeed } from "../../store/events/event-feed.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { type Traces, traceFields } from "../../telemetry/traces.ts";
import { addConsole } from "../documents/console.ts";
import { addDocuments } from "../documents/documents.ts";
import { addRoutes } from "../routes.ts";
import { answerErrors, answerRefused } from "./error-responses.ts";
import { createRewrite } from "./path-prefixes.ts";
import type { RateLimit } from "./rate-limit.ts";
import { parseQuery } from "./request-parts.ts";
import { beginRequestSpan, endRequestSpan, spanOf } from "./request-span.ts";
import { type Api, callerOf, createRoutes } from "./route.ts";

export interface ApiSettings {
  mode: Mode;
  region: string;
  regions: Region[];
  version: string;
  /** Path that a proxy puts before ours, such as `/pierhead`; "" for none. */
  basePath: string;
  /** Base of absolute URLs; null: scheme and host of the request. */
  publicUrl: string | null;
  /** Where this server listens: base of the addresses of deployments when nobody is asking. */
  ownUrl(): string;
  /** Names this start of this server. */
  owner: string;
  dataDir: string;
  templatesDir: string;
  /** Files of the console, as the build made them; null: there is none. */
  consoleDir: string | null;
  allowLocalSources: boolean;
  allowPrivateNetwork: boolean;
  /** GitHub, or the operator's Enterprise Server. */
  githubUrl: string;
  uncappedResources: boolean;
  /** The organization whose OAuth providers everybody may use; null: none. */
  sharedAuthOrganizationId: string | null;
  /** What services sign their keys with; null: none are taken. */
  serviceSecret: string | null;
  /** Where members sign in to the console; null: nowhere, keys do. */
  oidc: OidcSettings | null;
  hasBuiltinDataPlane: boolean;
  /** The built-in listener is a program of its own, beside this server. */
  isDataPlaneRemote: boolean;
  rateLimit: RateLimit;
  /** Where agents send their traces; null: nowhere of the operator's. */
  tracing: TracingBackend | null;
  /** How often an idle event stream says that it is there. */
  streamHeartbeatMs: number;
}

export interface ApiDeps {
  db: Db;
  sealer: Sealer;
  logger: Logger;
  metrics: Pick<Metrics, "requests" | "requestSeconds" | "eventStreams">;
  /** null: nobody collects them. */
  traces: Traces | null;
  /** What is committed, as it is; closed by who made it, which ends the streams. */
  events: EventFeed;
  /** The built-in listener. */
  listenerId: string;
  settings: ApiSettings;
  /** What must still happen before this server is ready; empty when it is. */
  readiness(): string[];
  /** What an agent server finds its databases by; secret. */
  databaseEnvironment(
    deployment: { id: string; tenantId: string },
    secrets: Record<string, string>,
  ): Promise<Record<string, string>>;
  /** Projects of the tracing back end; null: there is none, or it has no projects. */
  tracing: TracingProjects | null;
  /** Takes pushed images; a text says why there is none. */
  registry: { signer: Signer; host: string | null } | string;
  github: GithubApps;
  /** What the reconciler sees of a deployment; undefined: there is none. */
  explain(deploymentId: string): Promise<DeploymentDebug | undefined>;
}

/**
 * The HTTP API with all its routes. Serve it with `api.routing(request, response)`; calls of the same process take that way
 * as well, through the same checks and errors.
 */
export async function createApi(deps: ApiDeps): Promise<FastifyInstance> {
  const { settings } = deps;
  const { pathPrefixes } = modes[settings.mode];
  const server = fastify({
    bodyLimit: bodyBytesMax,
    exposeHeadRoutes: true,
    frameworkErrors: answerRefused,
    genReqId: (request) => sentId(request.headers["x-request-id"]) ?? randomUUID(),
    rewriteUrl: createRewrite([...pathPrefixes, ...pathPrefixes.map((prefix) => settings.basePath + prefix)]),
    // A path of any length reaches its route and gets that route's answer.
    routerOptions: { maxParamLength: 16_384, querystringParser: parseQuery },
  });
  // Bodies arrive as bytes, whatever they are called; each operation reads them as its schema says.
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  server.addHook("onRequest", async ({ raw }) => {
    // Fastify refuses what is no media type; clients that send such a header mean JSON.
    if (!/^[\w.+-]+\/[\w.+*-]+\s*(;.*)?$/.test(raw.headers["content-type"] ?? "")) delete raw.headers["content-type"];
  });

  observeRequests(server, deps);
  answerErrors(server, deps.logger);
  const api = createRoutes(server, deps);
  refuseUnknown(api);
  addRoutes(api);
  addDocuments(api);
  addConsole(api);
  await server.ready();
  return server;
}

/** An id that a client or proxy sent is kept, so that its log and ours can be joined. */
function sentId(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" && /^[\w.:-]{1,128}$/.test(header) ? header : undefined;
}

/** One log line and one count per request, when its answer is out or its client gone. Never the query: it may hold a signature. */
function observeRequests(server: FastifyInstance, { logger, metrics, traces }: ApiDeps): void {
  server.addHook("onRequest", async (request, reply) => {
    reply.headers({ "x-request-id": request.id, "x-content-type-options": "nosniff", "cache-control": "no-store" });
    const beganMs = performance.now();
    if (traces !== null && !probes.has(operationOf(request))) beginRequestSpan(traces, request, operationOf(request));
    reply.raw.once("close", () => observe(request, reply, performance.now() - beganMs));
  });

  function observe(request: FastifyRequest, reply: FastifyReply, durationMs: number): void {
    const operation = operationOf(request);
    const status = reply.raw.writableEnded ? reply.statusCode : clientGone;
    metrics.requests.inc({ operation, status });
    // How long a stream was watched says nothing about how fast we answer.
    const isStream = String(reply.raw.getHeader("content-type")).startsWith("text/event-stream");
    if (!isStream) metrics.requestSeconds.observe({ operation }, durationMs / 1_000);
    const level = probes.has(operation) ? "debug" : "info";
    const fields = { request_id: request.id, operation, verb: request.method, status, ...callerOf(request) };
    const line = { ...fields, duration_ms: Math.round(durationMs * 10) / 10 };
    logger[level]({ ...line, ...traceFields(spanOf(request)) }, "request answered");
    endRequestSpan(request, { status, ...callerOf(request), code: reply.getHeader(errorHeader) });
  }
}

const operationOf = (request: FastifyRequest) => request.routeOptions.config?.operation ?? "unknown";

/** Written down for a client that left before its answer was out. */
const clientGone = 499;

/** Asked every few seconds by whoever watches us. */
const probes: ReadonlySet<string> = new Set(["getOk", "getHealth", "getReadiness"]);

/** 405 for a path that exists under another verb, 404 for the rest (contract 1.4). */
function refuseUnknown(api: Api): void {
  const known: { path: RegExp; verb: string }[] = [];
  api.server.addHook("onReady", async () => {
    for (const { path, verb } of api.registered) {
      known.push({ path: new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`), verb });
    }
  });
  api.server.addHook("onRequest", async (request) => {
    if (!request.is404) return;
    const path = request.url.split("?", 1)[0] ?? "";
    const verbs = known.filter((one) => one.path.test(path)).map((one) => one.verb);
    if (verbs.length === 0) throw errors.routeNotFound();
    throw errors.methodNotAllowed(verbs.includes("GET") ? [...verbs, "HEAD"] : verbs);
  });
}
