import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Exchange } from "./exchange.ts";
import { answerHeaders, type ForwardedOptions, framingHeaders, requestHeaders } from "./headers.ts";
import { refusals } from "./refusal.ts";
import type { Replica } from "./replica.ts";

export interface ForwardOptions extends ForwardedOptions {
  bodyBytesMax: number;
  connectTimeoutMs: number;
}

/** Why an attempt brought no answer. */
export interface Failure {
  /** neverSent: no connection. stale: a kept connection had died. broken: the agent server may have seen the request. */
  kind: "neverSent" | "connectTimeout" | "stale" | "broken";
  reason: string;
}

/**
 * Sends one request to one replica and its answer back, both as they come. Exactly one of these follows: the answer,
 * a refusal, the client's leaving, or one call of `onFailure` while nothing was answered.
 */
export function forward(exchange: Exchange, replica: Replica, options: ForwardOptions, onFailure: OnFailure): void {
  const { request } = exchange;
  const headers = [...requestHeaders(request, exchange, options), ...framingHeaders(request)];
  const upstream = openRequest(exchange, replica, headers, options, onFailure);
  const sendsBody = hasBody(request);
  if (!sendsBody) upstream.end();
  onceConnected(upstream, options.connectTimeoutMs, () => {
    if (sendsBody) sendBody(exchange, upstream, options.bodyBytesMax);
  });
  upstream.on("response", (answer) => relayAnswer(exchange, answer));
}

export type OnFailure = (failure: Failure) => void;

/** Opens the request and counts it on the replica; failures before the answer go to `onFailure`. */
export function openRequest(
  exchange: Exchange,
  replica: Replica,
  headers: string[],
  options: ForwardOptions,
  onFailure: OnFailure,
): ClientRequest {
  const { request, address } = exchange;
  // After a kept connection turned out dead its siblings are doubtful too: a second attempt takes a new one.
  const agent = exchange.upgrade === null && exchange.attempts === 0 ? replica.agent : false;
  const { host, port } = replica;
  const method = request.method ?? "GET";
  const upstream = httpRequest({ agent, host, port, method, path: address.path, headers, insecureHTTPParser: false });
  exchange.attempt(replica, upstream);
  const connection = watchConnection(upstream);
  upstream.on("error", (error: NodeJS.ErrnoException) => {
    if (!exchange.isSettled) onFailure(failureOf(error, connection, request, options));
  });
  return upstream;
}

interface Connection {
  isOpen: boolean;
  socket: Socket | null;
  bytesReadBefore: number;
}

function watchConnection(upstream: ClientRequest): Connection {
  const connection: Connection = { isOpen: false, socket: null, bytesReadBefore: 0 };
  upstream.once("socket", (socket) => {
    connection.socket = socket;
    connection.isOpen = !socket.connecting;
    if (upstream.reusedSocket) connection.bytesReadBefore = socket.bytesRead;
    if (socket.connecting) socket.once("connect", () => (connection.isOpen = true));
  });
  return connection;
}

class ConnectTimeout extends Error {}

function failureOf(
  error: NodeJS.ErrnoException,
  { isOpen, socket, bytesReadBefore }: Connection,
  request: IncomingMessage,
  { connectTimeoutMs }: ForwardOptions,
): Failure {
  const reason = reasonOf(error);
  if (error instanceof ConnectTimeout)
    return { kind: "connectTimeout", reason: `no connection in ${connectTimeoutMs} ms` };
  if (!isOpen) return { kind: "neverSent", reason };
  const wasKept = bytesReadBefore > 0;
  const isSilent = socket !== null && socket.bytesRead === bytesReadBefore;
  const mayRepeat = isIdempotent(request.method) && !hasBody(request);
  return { kind: wasKept && isSilent && mayRepeat ? "stale" : "broken", reason };
}

function reasonOf(error: NodeJS.ErrnoException): string {
  if (error.code === "ECONNREFUSED") return "connection refused";
  if (error.code === "ECONNRESET" || error.code === "EPIPE") return "it closed the connection without an answer";
  if (error.code?.startsWith("HPE_")) return "its answer is not valid HTTP";
  return error.code ?? error.message;
}

/** RFC 9110 9.2.2. */
const isIdempotent = (method: string | undefined) =>
  method === "GET" || method === "HEAD" || method === "OPTIONS" || method === "TRACE" || isIdempotentWrite(method);
const isIdempotentWrite = (method: string | undefined) => method === "PUT" || method === "DELETE";

export const hasBody = ({ headers }: IncomingMessage) =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;

/** Nothing of a body is read before the connection stands: until then another replica can still be asked. */
function onceConnected(upstream: ClientRequest, connectTimeoutMs: number, connected: () => void): void {
  upstream.once("socket", (socket) => {
    if (!socket.connecting) return connected();
    const timer = setTimeout(() => upstream.destroy(new ConnectTimeout()), connectTimeoutMs);
    upstream.once("close", () => clearTimeout(timer));
    socket.once("connect", () => {
      clearTimeout(timer);
      connected();
    });
  });
}

function sendBody(exchange: Exchange, upstream: ClientRequest, bodyBytesMax: number): void {
  const { request, tally } = exchange;
  let bytes = 0;
  request.on("data", (chunk: Buffer) => {
    if (exchange.isSettled) return;
    bytes += chunk.length;
    tally.bytesIn += chunk.length;
    if (bytes > bodyBytesMax) exchange.refuse(refusals.oversize(bodyBytesMax));
    else if (!upstream.write(chunk)) request.pause();
  });
  upstream.on("drain", () => request.resume());
  request.on("end", () => upstream.end());
  upstream.flushHeaders();
}

/** Copies the answer to the client; each piece leaves in the turn of the event loop in which it came. */
export function relayAnswer(exchange: Exchange, answer: IncomingMessage): void {
  const { response, tally } = exchange;
  answer.on("error", () => breakOff(exchange));
  answer.on("close", () => {
    if (!answer.complete) breakOff(exchange);
  });
  if (exchange.isSettled) return;
  tally.tookMs(performance.now() - exchange.arrivedAtMs);
  response.writeHead(answer.statusCode ?? 502, answer.statusMessage, answerHeaders(answer, exchange));
  let isSent = false;
  answer.on("data", (chunk: Buffer) => {
    isSent = true;
    tally.bytesOut += chunk.length;
    if (!response.write(chunk)) answer.pause();
  });
  response.on("drain", () => answer.resume());
  answer.on("end", () => {
    isSent = true;
    response.end();
  });
  // Headers travel with the first piece when there is one already, and do not wait for it when there is none.
  setImmediate(() => {
    if (!isSent && !response.destroyed) response.flushHeaders();
  });
}

function breakOff(exchange: Exchange): void {
  exchange.fail("cut");
  if (!exchange.response.writableEnded) exchange.breakOff();
}
