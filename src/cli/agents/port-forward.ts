import type {
  Agent,
  ClientRequest,
  IncomingHttpHeaders,
  IncomingMessage,
  OutgoingHttpHeaders,
  ServerResponse,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { joinSockets } from "../../base/join-sockets.ts";
import { connectProtocol } from "../../contract/deployments/exec.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import { isSameOrigin } from "../login/contexts.ts";
import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";
import { openConnection } from "./agent-connection.ts";

interface ForwardOptions {
  sendKey?: boolean;
  allowOrigin?: string;
  throughServer?: boolean;
}

/** Where requests go, and which may. */
interface Target {
  url: URL;
  apiKey: string | undefined;
  allowedOrigin: string | undefined;
  /** Opens connections to the agent through the server; absent: they go to the address directly. */
  agent?: Agent;
}

/**
 * Serves an agent on a port of this machine until Ctrl-C, with the caller's key added, for programs that can send none. The key is
 * added under the same conditions as for `invoke`.
 */
export async function portForward(
  session: Session,
  [name = "", port]: string[],
  options: ForwardOptions,
): Promise<void> {
  const { terminal, signal } = session;
  const local = portOf(port);
  const deployment = await findDeployment(session, name);
  if (deployment.url === null)
    throw new CliFailure(`${deployment.name} has no address yet.`, { hints: [`Why: pierhead why ${deployment.name}`] });
  const { url: server, apiKey } = await session.connection();
  const mayHaveKey = options.sendKey === true || isSameOrigin(server, deployment.url);
  const target: Target = {
    url: new URL(deployment.url),
    apiKey: mayHaveKey ? apiKey : undefined,
    allowedOrigin: options.allowOrigin,
  };
  const isThroughServer = options.throughServer === true || !(await isReachable(target.url));
  if (isThroughServer) target.agent = await throughServer(session, deployment.id);
  const { createServer } = process.getBuiltinModule("node:http");
  const proxy = createServer((request, response) => forward(request, response, target));
  // Node releases them, so that `closeAllConnections` leaves them open, but `close` waits for them.
  const tunnels = new Set<Duplex>();
  proxy.on("upgrade", (request, socket, head) => {
    tunnels.add(socket);
    socket.once("close", () => tunnels.delete(socket));
    tunnel(request, socket, head, target);
  });
  await new Promise<void>((resolve, reject) => {
    proxy.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EADDRINUSE") return reject(error);
      reject(new CliFailure(`The port ${local} is taken.`, { hints: ["Choose another, or none for a free one."] }));
    });
    proxy.listen(local, "127.0.0.1", resolve);
  });
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  session.answer({ url, deployment: deployment.name, sends_key: target.apiKey !== undefined }, () => url);
  const withKey = target.apiKey === undefined ? "without a key; --send-key adds yours" : "with your key";
  const way = isThroughServer ? "through the server and its listener" : `to ${harmless(deployment.url)}`;
  terminal.say(`Forwards ${way}, ${withKey}. Ctrl-C ends it.`);
  const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  if (!signal.aborted) await aborted;
  target.agent?.destroy();
  proxy.closeAllConnections();
  for (const socket of tunnels) socket.destroy();
  await new Promise((resolve) => proxy.close(resolve));
}

/** @throws CliFailure for anything but the number of a port; undefined: a free port */
function portOf(text: string | undefined): number {
  if (text === undefined) return 0;
  if (/^\d+:\d+$/.test(text))
    throw usageFailure("The agent's port cannot be chosen: requests go to it through the gateway.", "Give one port.");
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(port >= 1 && port <= 65_535)) throw usageFailure(`"${text}" is not a port: use a number from 1 to 65535.`);
  return port;
}

/**
 * Returns why a request may not use the key. Every page in a browser of this machine can reach the port: pages of other origins name
 * theirs, and a name that an attacker points to this machine stands in `Host`.
 */
function refusalOf({ url: path = "", headers }: IncomingMessage, target: Target): string | null {
  const { host = "", origin, "sec-fetch-site": site } = headers;
  // A proxy before the server may resolve them, and then they would lead out of the agent, with the key.
  if (!path.startsWith("/") || dotSegment.test(path.split("?", 1)[0] as string))
    return "A path begins with / and has no segments of dots.";
  if (!/^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i.test(host)) return `The Host ${host} is not this machine.`;
  if (origin !== undefined && origin === target.allowedOrigin) return null;
  if (origin !== undefined && origin !== `http://${host}`)
    return `Pages of ${origin} may not call the agent. Allow them: --allow-origin ${origin}`;
  if (site === "cross-site" || site === "same-site") return "Pages of other sites may not call the agent.";
  return null;
}

const dotSegment = /(^|[/\\]|%2f|%5c)(\.|%2e){1,2}($|[/\\;#]|%2f|%5c|%3b|%23)/i;

function forward(request: IncomingMessage, response: ServerResponse, target: Target): void {
  const refusal = refusalOf(request, target);
  if (refusal !== null) {
    request.resume();
    return void response
      .writeHead(403, { "content-type": "application/json" })
      .end(JSON.stringify({ detail: refusal }));
  }
  const cors = corsOf(request.headers, target);
  if (cors !== null && request.headers["access-control-request-method"] !== undefined)
    return void response.writeHead(204, cors).end();
  const sent = send(request, target);
  sent.on("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, { ...withoutHop(answer.headers), ...cors });
    answer.pipe(response);
    answer.on("error", () => response.destroy());
  });
  sent.on("error", (error) => {
    if (response.headersSent) return void response.destroy();
    const detail = `The agent cannot be reached: ${error.message}`;
    response.writeHead(502, { "content-type": "application/json" }).end(JSON.stringify({ detail }));
  });
  response.on("close", () => sent.destroy());
  request.pipe(sent);
}

function tunnel(request: IncomingMessage, socket: Duplex, head: Buffer, target: Target): void {
  socket.on("error", () => socket.destroy());
  if (refusalOf(request, target) !== null)
    return void socket.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
  const sent = send(request, target, { connection: "Upgrade", upgrade: request.headers.upgrade });
  socket.on("close", () => sent.destroy());
  sent.on("upgrade", (answer, peer: Socket, peerHead) => {
    if (socket.destroyed) return void peer.destroy();
    socket.write(headOf(answer));
    if (peerHead.length > 0) socket.write(peerHead);
    if (head.length > 0) peer.write(head);
    joinSockets(socket, peer);
  });
  sent.on("response", (answer) => {
    const kept = Object.entries({ ...withoutHop(answer.headers), connection: "close" });
    const lines = kept.flatMap(([header, value]) => [value ?? []].flat().map((one) => `${header}: ${one}`));
    socket.write(`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\n${lines.join("\r\n")}\r\n\r\n`);
    answer.pipe(socket);
  });
  sent.on("error", () => socket.destroy());
  sent.end();
}

const reachTimeoutMs = 3_000;

/** Whether this machine can open a connection to an address. It sends nothing, so it wakes no deployment. */
function isReachable(url: URL): Promise<boolean> {
  const { connect } = process.getBuiltinModule("node:net");
  const port = Number(url.port) || (url.protocol === "https:" ? 443 : 80);
  const socket = connect({ host: url.hostname.replace(/^\[|\]$/g, ""), port });
  return new Promise<boolean>((resolve) => {
    socket.setTimeout(reachTimeoutMs, () => resolve(false));
    socket.on("connect", () => resolve(true)).on("error", () => resolve(false));
  }).finally(() => socket.destroy());
}

const connectionsMax = 32;

/** Returns connections through the server, after one has been tried. @throws CliFailure with the server's reason */
async function throughServer(session: Session, deploymentId: string): Promise<Agent> {
  const refused = "The server cannot connect to the agent";
  const open = () => openConnection(session, deploymentId, { path: "connect", protocol: connectProtocol, refused });
  (await open()).destroy();
  const { Agent } = process.getBuiltinModule("node:http");
  const agent = new Agent({ keepAlive: true, maxSockets: connectionsMax });
  agent.createConnection = (_options, done) => {
    open().then(
      (socket) => done?.(null, socket),
      (error: Error) => done?.(error, undefined as never),
    );
    return undefined;
  };
  return agent;
}

/** Begins the same request to the agent. */
function send(request: IncomingMessage, { url, apiKey, agent }: Target, more: OutgoingHttpHeaders = {}): ClientRequest {
  const isTls = url.protocol === "https:" && agent === undefined;
  const { request: begin } = process.getBuiltinModule(isTls ? "node:https" : "node:http");
  const headers: OutgoingHttpHeaders = { ...withoutHop(request.headers), host: url.host, ...more };
  // Without it, Node sends the body of a DELETE with no length, and the server reads it as the next request.
  if (request.headers["transfer-encoding"] !== undefined) headers["transfer-encoding"] = "chunked";
  delete headers["origin"];
  if (apiKey !== undefined && headers["x-api-key"] === undefined) headers["x-api-key"] = apiKey;
  const base = url.pathname.replace(/\/+$/, "");
  const to = { method: request.method, headers };
  // The listener knows which agent the connection is for.
  if (agent !== undefined) return begin({ ...to, agent, path: request.url ?? "/" });
  return begin({ ...to, ...addressOf(url), path: base + (request.url ?? "/") });
}

/** Returns what lets a page of the allowed origin read the answer. The agent sees no origin, so it does not say it. */
function corsOf(headers: IncomingHttpHeaders, { allowedOrigin }: Target): OutgoingHttpHeaders | null {
  if (allowedOrigin === undefined || headers.origin !== allowedOrigin) return null;
  return {
    vary: "Origin",
    "access-control-allow-origin": allowedOrigin,
    "access-control-allow-methods": headers["access-control-request-method"] ?? "*",
    "access-control-allow-headers": headers["access-control-request-headers"] ?? "*",
    "access-control-expose-headers": "*",
    ...(headers["access-control-request-private-network"] && { "access-control-allow-private-network": "true" }),
  };
}

const addressOf = ({ protocol, hostname, port }: URL) => ({
  protocol,
  hostname: hostname.replace(/^\[|\]$/g, ""),
  ...(port !== "" && { port }),
});

/** Headers that concern one connection (RFC 9110, section 7.6.1). */
const hopByHop = new Set(["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"]);

function withoutHop(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !hopByHop.has(name)));
}

function headOf({ statusCode, statusMessage, rawHeaders }: IncomingMessage): string {
  const lines = [`HTTP/1.1 ${statusCode} ${statusMessage}`];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}
