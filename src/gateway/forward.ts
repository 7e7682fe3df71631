import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { BurstsOfServer } from "./burst-turns.ts";
import { onChunks, pauseBody, resumeBody } from "./chunks.ts";
import { refusalOfAnswer } from "./console-call.ts";
import type { Exchange } from "./exchange.ts";
import { answerHeaders, type ForwardedOptions, framingHeaders, type RawHeaders, requestHeaders } from "./headers.ts";
import { refusals } from "./refusal.ts";
import type { Replica } from "./replica.ts";

export interface ForwardOptions extends ForwardedOptions {
  bodyBytesMax: number;
  connectTimeoutMs: number;
}

/** Why an attempt brought no answer. */
export interface Failure {
  /** neverSent: no connection. stale: an idle connection was dead. broken: the agent server may have seen the request. */
  kind: "neverSent" | "connectTimeout" | "stale" | "broken";
  reason: string;
}

/**
 * Streams one request to one replica and its answer back. Exactly one of these follows: the answer, a refusal, the client
 * leaves, or one call of `onFailure` before any part of the answer.
 */
export function forward(exchange: Exchange, replica: Replica, options: ForwardOptions, onFailure: OnFailure): void {
  const { request } = exchange;
  const headers = [...requestHeaders(request, exchange, options), ...framingHeaders(request)];
  const sendsBody = hasBody(request);
  // The body is read only once the connection is open. Until then the request can still go to another replica.
  const { bodyBytesMax } = options;
  const connected = (upstream: ClientRequest) =>
    sendsBody && sendBody(exchange, upstream, { bodyBytesMax, bursts: replica.bursts });
  const upstream = openRequest(exchange, replica, { headers, options, connected, upgraded: null, onFailure });
  if (!sendsBody) upstream.end();
}

/** Interim answers (1xx) to one request. Some servers send one each few seconds until the final one. */
const interimMax = 1_000;

/** A small buffer stops reading soon while an answer is paused. An answer that is not paused does not use it. */
const connectionOptions = { insecureHTTPParser: false, readableHighWaterMark: 4_096 };

export type OnFailure = (failure: Failure) => void;

interface UpstreamOptions {
  headers: RawHeaders;
  options: ForwardOptions;
  /** Called once the connection is open. */
  connected: (upstream: ClientRequest) => void;
  /** Called when the agent server accepts the WebSocket. Null: the request asks for none. */
  upgraded: ((connection: UpgradedConnection) => void) | null;
  onFailure: OnFailure;
}

export interface UpgradedConnection {
  answer: IncomingMessage;
  peer: Socket;
  /** Bytes that the agent server has already sent on the WebSocket. */
  peerHead: Buffer;
}

/** Opens the request, counts it on the replica and relays the answer. Earlier failures go to `onFailure`. */
export function openRequest(exchange: Exchange, replica: Replica, upstreamOptions: UpstreamOptions): ClientRequest {
  const { request, address } = exchange;
  const { headers, options, connected, upgraded, onFailure } = upstreamOptions;
  // When an idle connection was dead, others probably are too, so a second attempt opens a new one.
  const agent = exchange.upgrade === null && exchange.attempts === 0 ? replica.agent : false;
  const { host, port } = replica;
  const method = request.method ?? "GET";
  const target = { agent, host, port, method, path: address.path, headers };
  const upstream = httpRequest({ ...target, ...connectionOptions });
  exchange.attempt(replica, upstream);
  const connection: Connection = { isOpen: false, socket: null, bytesReadBefore: 0 };
  upstream.on("socket", (socket) => {
    watchConnection(upstream, socket, { connection, connectTimeoutMs: options.connectTimeoutMs, connected });
  });
  let isDone = false;
  const done = () => {
    isDone = true;
  };
  const fail = (error: NodeJS.ErrnoException) => {
    if (isDone || exchange.isSettled) return;
    isDone = true;
    onFailure({ kind: failureKind(error, connection, request), reason: reasonOf(error) });
  };
  // Errors after the answer has begun are handled by the answer.
  upstream.on("response", done).on("error", fail);
  upstream.on("response", (answer) => relayAnswer(exchange, answer, replica.bursts));
  let interim = 0;
  upstream.on("information", () => {
    interim += 1;
    if (interim > interimMax) exchange.refuse(refusals.unreachable(exchange.revisionId, invalidHttp));
  });
  upstream.on("upgrade", (answer, peer: Socket, peerHead: Buffer) => {
    done();
    if (upgraded !== null && /^websocket$/i.test(answer.headers.upgrade ?? ""))
      return upgraded({ answer, peer, peerHead });
    peer.destroy();
    exchange.refuse(refusals.unreachable(exchange.revisionId, "it switched to a protocol that was not requested"));
  });
  return upstream;
}

interface Connection {
  isOpen: boolean;
  socket: Socket | null;
  bytesReadBefore: number;
}

interface Watch {
  connection: Connection;
  connectTimeoutMs: number;
  connected: (upstream: ClientRequest) => void;
}

function watchConnection(upstream: ClientRequest, socket: Socket, { connection, connectTimeoutMs, connected }: Watch) {
  connection.socket = socket;
  connection.isOpen = !socket.connecting;
  if (connection.isOpen) {
    connection.bytesReadBefore = socket.bytesRead;
    return connected(upstream);
  }
  const timer = setTimeout(() => upstream.destroy(new ConnectTimeout()), connectTimeoutMs);
  upstream.once("close", () => clearTimeout(timer));
  socket.once("connect", () => {
    clearTimeout(timer);
    connection.isOpen = true;
    connected(upstream);
  });
}

class ConnectTimeout extends Error {}

function failureKind(error: Error, { isOpen, socket, bytesReadBefore }: Connection, request: IncomingMessage) {
  if (error instanceof ConnectTimeout) return "connectTimeout";
  if (!isOpen) return "neverSent";
  const wasKept = bytesReadBefore > 0;
  const isSilent = socket?.bytesRead === bytesReadBefore;
  const mayRepeat = idempotentMethods.has(request.method ?? "") && !hasBody(request);
  return wasKept && isSilent && mayRepeat ? "stale" : "broken";
}

/** RFC 9110 9.2.2. */
const idempotentMethods = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]);

function reasonOf(error: NodeJS.ErrnoException): string {
  if (error instanceof ConnectTimeout) return "it accepted no connection in time";
  if (error.code === "ECONNREFUSED") return "connection refused";
  if (error.code === "ECONNRESET" || error.code === "EPIPE") return "it closed the connection without an answer";
  if (error.code?.startsWith("HPE_")) return invalidHttp;
  return error.code ?? error.message;
}

export const hasBody = ({ headers }: IncomingMessage) =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;

function sendBody(
  exchange: Exchange,
  upstream: ClientRequest,
  { bodyBytesMax, bursts }: { bodyBytesMax: number; bursts: BurstsOfServer },
): void {
  const { request, counter } = exchange;
  let bytes = 0;
  const send = (part: Buffer) => {
    if (exchange.isSettled) return;
    bytes += part.length;
    counter.bytesIn += part.length;
    if (bytes > bodyBytesMax) exchange.refuse(refusals.oversize(bodyBytesMax));
    else if (!upstream.write(part)) pauseBody(request);
  };
  onChunks(request, send, { bursts, isSender: false });
  upstream.on("drain", () => resumeBody(request));
  request.on("end", () => upstream.end());
  upstream.flushHeaders();
}

/** Copies the answer to the client. Each chunk is sent in the turn of the event loop in which it arrived. */
function relayAnswer(exchange: Exchange, answer: IncomingMessage, bursts: BurstsOfServer): void {
  const { response, counter } = exchange;
  answer.on("error", () => breakOff(exchange));
  answer.on("close", () => {
    if (!answer.complete) breakOff(exchange);
  });
  if (exchange.isSettled) return;
  counter.recordLatency(performance.now() - exchange.arrivedAtMs);
  const refusal = exchange.isFromConsole ? refusalOfAnswer(answer) : null;
  if (refusal !== null) exchange.refuse(refusal);
  if (exchange.isSettled || !writeHead(exchange, answer)) return;
  let isSent = false;
  const send = (part: Buffer) => {
    isSent = true;
    counter.bytesOut += part.length;
    if (response.destroyed || response.write(part)) return;
    pauseBody(answer);
    response.once("drain", () => resumeBody(answer));
  };
  onChunks(answer, send, { bursts, isSender: true });
  answer.on("end", () => {
    isSent = true;
    response.end();
  });
  // Send the headers together with the first chunk if it is already there, but do not wait for it.
  setImmediate(() => {
    if (!isSent && !response.destroyed) response.flushHeaders();
  });
}

/** Returns false if Node's parser accepted a head that may not be sent (status 099, control characters). */
function writeHead(exchange: Exchange, answer: IncomingMessage): boolean {
  try {
    exchange.response.writeHead(answer.statusCode ?? 502, answer.statusMessage, answerHeaders(answer, exchange));
    return true;
  } catch {
    exchange.refuse(refusals.unreachable(exchange.revisionId, invalidHttp));
    return false;
  }
}

const invalidHttp = "its answer is not valid HTTP";

function breakOff(exchange: Exchange): void {
  exchange.fail("cut");
  if (!exchange.response.writableEnded) exchange.breakOff();
}
