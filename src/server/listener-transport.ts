import type { FastifyInstance } from "fastify";
import type { Send } from "../client/listener-client.ts";
import type { Identified, Identify } from "../gateway/callers.ts";
import { activeSpan, type Traces } from "../telemetry/traces.ts";

/**
 * Carries the listener protocol inside the process: the same routes, checks and answers as over HTTP, without a socket.
 * The listener cannot tell the difference, which is what makes a laptop and a cluster one code path.
 */
export function inProcessSend(api: FastifyInstance, apiKey: string): Send {
  return async ({ method, path, body, headers, signal }) => {
    signal.throwIfAborted();
    const answer = await api.inject({
      method,
      url: path,
      headers: { ...headers, "x-api-key": apiKey },
      signal,
      ...(body === undefined ? {} : { payload: body as object }),
    });
    return { status: answer.statusCode, body: answer.payload === "" ? undefined : answer.json() };
  };
}

/** What is sent within a span says so: the control plane goes on in the same trace. */
export function tracedSend(send: Send, traces: Traces | null): Send {
  if (traces === null) return send;
  return (request) => {
    const span = activeSpan();
    if (span === undefined) return send(request);
    return send({ ...request, headers: { ...request.headers, traceparent: span.traceparent } });
  };
}

/** Asks the API of this process who calls an agent (contract 7.4). */
export function inProcessIdentify(api: FastifyInstance): Identify {
  return async (headers, { address, signal }) => {
    const answer = await api.inject({ method: "GET", url: "/auth/public", headers, remoteAddress: address, signal });
    return identified(answer.statusCode, answer.json());
  };
}

/** Asks a control plane at an address. The caller's key is all that is sent: our own would speak for everybody. */
export function httpIdentify(baseUrl: string): Identify {
  const url = `${baseUrl.replace(/\/+$/, "")}/auth/public`;
  return async (headers, { signal }) => {
    const answer = await fetch(url, { headers, signal, redirect: "error" });
    return identified(answer.status, (await answer.json()) as CallerAnswer);
  };
}

interface CallerAnswer {
  tenant_id: string;
  detail: string;
}

function identified(status: number, body: CallerAnswer): Identified {
  if (status === 200) return { workspaceId: body.tenant_id };
  if (status >= 500) throw new Error(`the API answered with status ${status}`);
  return { status, detail: body.detail };
}
