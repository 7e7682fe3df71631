import { request as begin, type IncomingMessage } from "node:http";
import { request as beginTls } from "node:https";
import type { FastifyInstance } from "fastify";
import { awaitUpgrade } from "../base/await-upgrade.ts";
import { readText } from "../base/read-text.ts";
import { CallRefused, type Send } from "../client/listener-client.ts";
import { tunnelProtocol } from "../contract/listeners/tunnel.ts";
import type { Identified, Identify } from "../gateway/caller-authorizer.ts";
import type { OpenUpgrade } from "../listener/tunnels/tunnel-server.ts";
import { activeSpan, type Traces } from "../telemetry/traces.ts";
import { callInProcess, type InProcessCall } from "./tuning/in-process-call.ts";
import type { TuningName } from "./tuning/switches.ts";

/** Address of the built-in listener in logs and audit events. */
const ownAddress = "127.0.0.1";

/** Calls the API of this process. */
export type CallApi = (call: InProcessCall) => Promise<{ status: number; text: string }>;

/** Returns how this process calls its own API: without a copy of each response, or by Fastify's `inject` if that is turned off. */
export function callerOf(api: FastifyInstance, tuningOff: ReadonlySet<TuningName>): CallApi {
  if (!tuningOff.has("in-process-calls")) return (call) => callInProcess(api, call);
  return async ({ method, path, headers, body, address, signal }) => {
    signal.throwIfAborted();
    const answer = await api.inject({
      method: method as "GET",
      url: path,
      headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
      ...(body !== undefined && { payload: body }),
      remoteAddress: address,
      signal,
    });
    return { status: answer.statusCode, text: answer.payload };
  };
}

/**
 * Carries the listener protocol inside the process: the same routes, checks and responses as over HTTP, without a socket.
 * The listener cannot tell the difference, so a laptop and a cluster share one code path.
 */
export function inProcessSend(callApi: CallApi, apiKey: string): Send {
  return async ({ method, path, body, headers, signal }) => {
    const answer = await callApi({
      method,
      path,
      headers: { ...headers, "x-api-key": apiKey },
      body: body === undefined ? undefined : JSON.stringify(body),
      address: ownAddress,
      signal,
    });
    return { status: answer.status, body: answer.text === "" ? undefined : JSON.parse(answer.text) };
  };
}

/** Adds the active span to requests, so that the control plane continues the same trace. */
export function tracedSend(send: Send, traces: Traces | null): Send {
  if (traces === null) return send;
  return (request) => {
    const span = activeSpan();
    if (span === undefined) return send(request);
    return send({ ...request, headers: { ...request.headers, traceparent: span.traceparent } });
  };
}

/** Asks the API of this process for the identity of an agent's caller (contract 7.4). */
export function inProcessIdentify(callApi: CallApi): Identify {
  return async (headers, { deploymentId, address, signal }) => {
    const path = `/auth/public?deployment_id=${deploymentId}`;
    const answer = await callApi({ method: "GET", path, headers, address, signal });
    return identified(answer.status, JSON.parse(answer.text));
  };
}

/**
 * Asks a control plane over HTTP. Sends only the caller's key: with the listener's own key every caller would be admitted. The caller's
 * address counts where the control plane trusts this process as a proxy.
 */
export function httpIdentify(baseUrl: string): Identify {
  const url = `${baseUrl.replace(/\/+$/, "")}/auth/public`;
  return async (caller, { deploymentId, address, signal }) => {
    const headers = { ...caller, "x-forwarded-for": address };
    const answer = await fetch(`${url}?deployment_id=${deploymentId}`, { headers, signal, redirect: "error" });
    return identified(answer.status, (await answer.json()) as CallerAnswer);
  };
}

interface CallerAnswer {
  tenant_id: string;
  assertion?: string;
  detail: string;
}

function identified(status: number, body: CallerAnswer): Identified {
  if (status === 200) return { workspaceId: body.tenant_id, assertion: body.assertion };
  if (status >= 500) throw new Error(`the API answered with status ${status}`);
  return { status, detail: body.detail };
}

const upgradeTimeoutMs = 15_000;

/** Opens upgraded connections to a control plane over HTTP. */
export function httpUpgrades(baseUrl: string, apiKey: string | (() => Promise<string>)): OpenUpgrade {
  const base = baseUrl.replace(/\/+$/, "");
  return async (path, headers, signal) => {
    const key = typeof apiKey === "string" ? apiKey : await apiKey();
    const asked = { ...headers, "x-api-key": key, connection: "Upgrade", upgrade: tunnelProtocol };
    const send = base.startsWith("https:") ? beginTls : begin;
    const sent = send(base + path, { headers: asked, signal, agent: false });
    sent.end();
    const { socket } = await awaitUpgrade(sent, { timeoutMs: upgradeTimeoutMs, refused });
    return socket.setKeepAlive(true, upgradeTimeoutMs);
  };
}

async function refused(answer: IncomingMessage): Promise<CallRefused> {
  const status = answer.statusCode ?? 0;
  const text = await readText(answer);
  // A page of a proxy that did not pass the upgrade on says nothing about the control plane.
  return new CallRefused(status < 400 ? 0 : status, null, text.slice(0, 200));
}
