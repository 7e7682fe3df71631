import type { FastifyReply, FastifyRequest } from "fastify";
import { type Span, type Traces, within } from "../../telemetry/traces.ts";

const spans = new WeakMap<FastifyRequest, Span>();

/** The span of a request; undefined: it is not traced. */
export const spanOf = (request: FastifyRequest): Span | undefined => spans.get(request);

/**
 * Begins the span of a request, in the trace that its `traceparent` names. What has no operation is not traced, nor what
 * a listener asks all the time, unless it does so within a trace.
 */
export function beginRequestSpan(traces: Traces, request: FastifyRequest, operation: string): void {
  const { traceparent } = request.headers;
  const parent = typeof traceparent === "string" ? traceparent : null;
  const isListener = request.url.startsWith("/dp/v1/");
  if (operation === "unknown" || (isListener && parent === null)) return;
  const attributes = { operation, request_id: request.id, "http.request.method": request.method };
  spans.set(request, traces.begin("api.request", parent, attributes, "server"));
}

/** @param answer.code of the catalogue, when it was a refusal. */
export function endRequestSpan(
  request: FastifyRequest,
  { status, tenant_id, key_id, code }: { status: number; tenant_id?: string; key_id?: string; code: unknown },
): void {
  const span = spans.get(request);
  if (span === undefined) return;
  const refusal = typeof code === "string" ? code : null;
  span.set({ "http.response.status_code": status, workspace_id: tenant_id, key_id, error_code: refusal });
  if (status >= 500) span.fail(refusal ?? String(status));
  span.end();
}

/** The handler as a step of its request. Not the rest: the key is looked up, and the body read, outside. */
export function inRequestSpan(traces: Traces | null, handle: Handle): Handle {
  return traces === null ? handle : (request, reply) => within(spans.get(request), () => handle(request, reply));
}

type Handle = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;
