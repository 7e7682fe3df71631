import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { errorHeader } from "../../contract/error.ts";
import { traceFields } from "../../telemetry/traces.ts";
import type { ApiDeps } from "../deps.ts";
import { beginRequestSpan, endRequestSpan, spanOf } from "./request-span.ts";
import { callerOf } from "./route.ts";

/**
 * Logs and counts every request once, when its response is sent or its client has disconnected. Never logs the query,
 * because it may contain a signature.
 */
export function observeRequests(server: FastifyInstance, { logger, metrics, traces }: ApiDeps): void {
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
    // The duration of a stream says nothing about our response time.
    const isStream = String(reply.raw.getHeader("content-type")).startsWith("text/event-stream");
    if (!isStream) metrics.requestSeconds.observe({ operation }, durationMs / 1_000);
    const level = probes.has(operation) ? "debug" : "info";
    const fields = { request_id: request.id, operation, verb: request.method, status, ...callerOf(request) };
    const line = { ...fields, duration_ms: Math.round(durationMs * 10) / 10 };
    logger[level]({ ...line, ...traceFields(spanOf(request)) }, "request completed");
    endRequestSpan(request, { status, ...callerOf(request), code: reply.getHeader(errorHeader) });
  }
}

const operationOf = (request: FastifyRequest) => request.routeOptions.config?.operation ?? "unknown";

/** Status that the log and the metrics record for a client that disconnected before its response was sent. */
const clientGone = 499;

/** Operations that monitoring calls every few seconds. */
const probes: ReadonlySet<string> = new Set(["getOk", "getHealth", "getReadiness"]);
