import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { networkOf } from "../base/network.ts";
import { Shares } from "../base/shares.ts";
import { noTrustedProxies, type TrustedProxies } from "../base/trusted-proxies.ts";
import { connectionsMax, discardedBytesMax, discardTimeoutMs } from "../domain/limits.ts";
import { hasBody } from "../gateway/forward.ts";
import { type Gateway, gatewayServerOptions, keepAllHeaders } from "../gateway/gateway.ts";
import { rememberUpgrade, UpgradeSocket } from "../gateway/upgrade-socket.ts";
import { FairTurns } from "./fair-turns.ts";
import { openFilesMax } from "./open-files.ts";

export interface HttpServer {
  server: Server;
  /** Stops accepting connections. Closes idle ones now, and the others after their response or after 2 s. */
  end(): Promise<void>;
}

/** Fraction of the connections that other addresses leave which one address may have. A proxy may bring everybody from one address. */
const addressShare = 0.5;

/** A request takes a second connection, to an agent, and the rest of the server opens files too. */
const connectionsOfOpenFiles = 1 / 3;

const endTimeoutMs = 2_000;

const notFound = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/** Creates an HTTP server with WebSocket support for agents. Upgrade requests that neither they nor the API take get a 404. */
export function createHttpServer(
  gateway: Pick<Gateway, "upgrade">,
  parts: {
    answer: RequestListener;
    isForAgent: Gateway["matches"];
    /** Whether an upgrade request goes to `answer`, which may take its connection over (`upgradeOf`). */
    isForApi?: (request: IncomingMessage) => boolean;
    /** Deadline for receiving a whole request. Default: the gateway's. */
    arrivalMsOf?: (request: IncomingMessage) => number | undefined;
    /** The operator's proxies, which tell the addresses of their clients. Default: none. */
    proxies?: TrustedProxies;
  },
): HttpServer {
  // Node has one request timeout for all requests, and some bodies are gigabytes. `limitArrival` sets it per request.
  const { requestTimeout = 0, ...options } = gatewayServerOptions;
  const { shouldUpgradeCallback = () => true } = options;
  const isUpgrade = (request: IncomingMessage) => parts.isForApi?.(request) === true || shouldUpgradeCallback(request);
  const { proxies = noTrustedProxies } = parts;
  const turns = new FairTurns();
  const inTurn = (request: IncomingMessage, begin: () => void) =>
    turns.take(networkOf(proxies.clientOf(request)), () => {
      if (!request.socket.destroyed) begin();
    });
  const server = createServer(
    { ...options, shouldUpgradeCallback: isUpgrade, requestTimeout: 0 },
    (request, response) => {
      if (!isWithinPipeline(request, response)) return endReading(request.socket);
      limitArrival(request, response, parts.arrivalMsOf?.(request) ?? requestTimeout);
      discardRest(request, response);
      if (!inTurn(request, () => parts.answer(request, response))) endReading(request.socket);
    },
  );
  keepAllHeaders(server);
  limitConnections(server, Math.min(connectionsMax, Math.floor(openFilesMax() * connectionsOfOpenFiles)), proxies);
  // Node detaches upgraded sockets: it neither handles their errors nor closes them, but `server.close` waits for them.
  const upgraded = new Set<Duplex>();
  server.on("upgrade", (request, socket, head) => {
    upgraded.add(socket);
    socket.once("close", () => upgraded.delete(socket));
    socket.on("error", () => socket.destroy());
    const isTaken = inTurn(request, () => {
      if (parts.isForAgent(request)) return gateway.upgrade(request, socket, head);
      if (!parts.isForApi?.(request)) return void socket.end(notFound, () => socket.destroy());
      const upgrade = new UpgradeSocket(socket as Socket, head);
      rememberUpgrade(request, upgrade);
      parts.answer(request, upgrade.plainResponse(request));
    });
    if (!isTaken) socket.destroy();
  });
  server.on("clientError", answerClientError);
  return {
    server,
    async end() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const deadline = setTimeout(() => {
        server.closeAllConnections();
        for (const socket of upgraded) socket.destroy();
      }, endTimeoutMs);
      await closed;
      clearTimeout(deadline);
    },
  };
}

const tooLarge =
  "Cookies or other headers of this request are too large. The server asked the browser to delete its cookies: reload.";

/** Length of a request line above which its address, and not the cookies, may be what made the headers too large. */
const requestLineMax = 2_048;

/** Whether cookies alone made the headers of a request too large. */
function hasTooManyCookies({ code, rawPacket }: NodeJS.ErrnoException & { rawPacket?: Buffer }): boolean {
  if (code !== "HPE_HEADER_OVERFLOW" || rawPacket === undefined) return false;
  const [requestLine = "", ...headers] = rawPacket.toString("latin1").split("\r\n");
  if (!/^[A-Z]+ \//.test(requestLine) || requestLine.length > requestLineMax) return false;
  const lengthOf = (lines: string[]) => lines.reduce((sum, line) => sum + line.length, 0);
  return lengthOf(headers.filter((line) => /^cookie:/i.test(line))) > lengthOf(headers) / 2;
}

/**
 * Answers a request that Node could not parse, as Node does itself. When cookies made the headers too large, the answer also
 * deletes the browser's cookies: a page of another name under the same domain may have set so many that no request of its user
 * arrives here. A link with a long address does not do that.
 */
function answerClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
  const status = statuses[error.code ?? ""] ?? "400 Bad Request";
  const isOverflow = hasTooManyCookies(error);
  const body = isOverflow ? tooLarge : "";
  const more = isOverflow ? 'clear-site-data: "cookies"\r\ncontent-type: text/plain\r\n' : "";
  const head = `HTTP/1.1 ${status}\r\n${more}content-length: ${body.length}\r\nconnection: close\r\n\r\n`;
  if (error.code === "ECONNRESET" || !socket.writable || hasStarted(socket)) return void socket.destroy(error);
  socket.end(head + body, () => socket.destroy());
}

const statuses: Record<string, string> = {
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
  HPE_CHUNK_EXTENSIONS_OVERFLOW: "413 Payload Too Large",
  ERR_HTTP_REQUEST_TIMEOUT: "408 Request Timeout",
};

/** Whether a response is being written, so that another one would be read as a part of it. */
const hasStarted = (socket: Duplex) =>
  (socket as { _httpMessage?: { headersSent: boolean } | null })._httpMessage?.headersSent === true;

/**
 * Requests of one connection that wait for their answers at the same time. Node takes all requests of a packet at once, and a packet
 * has room for 2,000, so that one connection without a key would keep the server from answering anyone else. Browsers and usual
 * clients wait for each answer.
 */
const pipelinedMax = 16;

const unanswered = new WeakMap<Socket, number>();

/** Counts a request until its answer has ended. Returns false if too many of its connection wait already. */
function isWithinPipeline({ socket }: IncomingMessage, response: ServerResponse): boolean {
  const count = (unanswered.get(socket) ?? 0) + 1;
  if (count > pipelinedMax) return false;
  unanswered.set(socket, count);
  response.once("close", () => unanswered.set(socket, (unanswered.get(socket) ?? 1) - 1));
  return true;
}

/**
 * Closes a connection within the event of one of its requests. Node goes on with the other requests of a packet although their
 * connection is destroyed, thousands of them for tens of milliseconds. Its parser stops at a request that it takes for an upgrade,
 * which is what 2 means.
 */
function endReading(socket: Socket): void {
  const { parser } = socket as { parser?: { onIncoming?: () => number } | null };
  if (parser?.onIncoming !== undefined) parser.onIncoming = () => 2;
  socket.destroy();
}

const late = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n";

/** Applies a deadline to the request body as Node does: answers 408 unless a response has started, then closes the connection. */
function limitArrival(request: IncomingMessage, response: ServerResponse, withinMs: number): void {
  if (!hasBody(request)) return;
  const { socket } = request;
  const timer = setTimeout(() => {
    if (request.complete) return;
    if (!response.headersSent) socket.write(late);
    socket.destroy();
  }, withinMs).unref();
  const end = () => {
    clearTimeout(timer);
    socket.off("close", end);
  };
  // A request that is answered before its body was read emits no end.
  request.once("close", end);
  socket.once("close", end);
}

/**
 * Discards what is left of a request's body after its response, so that the client sees the response and can use the
 * connection again. Closes the connection of a client that sends more than `discardedBytesMax` or takes longer than
 * `discardTimeoutMs`: the server uses nothing of what it sends.
 */
function discardRest(request: IncomingMessage, response: ServerResponse): void {
  if (!hasBody(request)) return;
  response.once("finish", () => {
    if (request.complete) return;
    const { socket } = request;
    let bytes = 0;
    const timer = setTimeout(() => socket.destroy(), discardTimeoutMs).unref();
    request.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > discardedBytesMax) socket.destroy();
    });
    for (const event of ["end", "close"]) request.once(event, () => clearTimeout(timer));
    request.resume();
  });
}

/**
 * Bounds the connections of the server, and those of one address, so that something is left for the next address. The operator's proxies
 * bring the connections of everybody.
 */
function limitConnections(server: Server, max: number, proxies: TrustedProxies): void {
  server.maxConnections = max;
  const shares = new Shares({ total: max, workspace: addressShare, key: 1 });
  server.on("connection", (socket) => {
    const { remoteAddress } = socket;
    if (proxies.has(remoteAddress)) return;
    const taken = shares.take({ workspaceId: networkOf(remoteAddress ?? "") });
    if ("release" in taken) socket.once("close", taken.release);
    else socket.destroy();
  });
}
