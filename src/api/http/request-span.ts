import type { FastifyReply, FastifyRequest } from "fastify";
import { type Span, type Traces, within } from "../../telemetry/traces.ts";

const spans = new WeakMap<FastifyRequest, Span>();

/** Returns the span of a request; undefined when it is not traced. */
export const spanOf = (request: FastifyRequest): Span | undefined => spans.get(request);

/**
 * Begins the span of a request, in the trace that its `traceparent` names. Requests without an operation are not
 * traced, nor are the frequent requests of listeners, unless they belong to a trace.
 */
export function beginRequestSpan(traces: Traces, request: FastifyRequest, operation: string): void {
  const { traceparent } = request.headers;
  const parent = typeof traceparent === "string" ? traceparent : null;
  const isListener = request.url.startsWith("/dp/v1/");
  if (operation === "unknown" || (isListener && parent === null)) return;
  const attributes = { operation, request_id: request.id, "http.request.method": request.method };
  spans.set(request, traces.begin("api.request", parent, attributes, "server"));
}

/** Ends the span of a request. @param answer.code Code of the error catalog, when the request was refused. */
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

/** Runs the handler inside the span of its request, with the reading of its body. Key lookup happens outside. */
export function inRequestSpan(traces: Traces | null, handle: Handle): Handle {
  return traces === null ? handle : (request, reply) => within(spans.get(request), () => handle(request, reply));
}

type Handle = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;
