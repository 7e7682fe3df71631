import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Exchange } from "./exchange.ts";
import { type ForwardOptions, type OnFailure, openRequest, type UpgradedConnection } from "./forward.ts";
import { answerHeaders, requestHeaders } from "./headers.ts";
import type { Replica } from "./replica.ts";
import type { UpgradeSocket } from "./upgrade-socket.ts";

/** After one side has ended its stream, the other side has this long to finish. */
const halfOpenMs = 10_000;

const upgradeHeaders = ["connection", "Upgrade", "upgrade", "websocket"];

/**
 * Asks a replica for a WebSocket and connects both sockets when it accepts. Otherwise its plain answer goes back. An open
 * WebSocket has no limits of time or size.
 */
export function tunnel(exchange: Exchange, replica: Replica, options: ForwardOptions, onFailure: OnFailure): void {
  const headers = [...requestHeaders(exchange.request, exchange, options), ...upgradeHeaders];
  const upgraded = (connection: UpgradedConnection) => {
    connection.peer.on("error", () => connection.peer.destroy());
    if (exchange.upgrade === null || exchange.isSettled) connection.peer.destroy();
    else joinSockets(exchange, exchange.upgrade, connection);
  };
  openRequest(exchange, replica, { headers, options, connected: () => {}, upgraded, onFailure }).end();
}

function joinSockets(exchange: Exchange, upgrade: UpgradeSocket, { answer, peer, peerHead }: UpgradedConnection): void {
  const { response, counter } = exchange;
  const { socket } = upgrade;
  response.detachSocket(socket);
  exchange.becomeTunnel();
  counter.recordLatency(performance.now() - exchange.arrivedAtMs);
  const head = upgrade.take();
  socket.write(switchingHead(answer, exchange), "latin1");
  if (peerHead.length > 0) socket.write(peerHead);
  if (head.length > 0) peer.write(head);
  peer.setTimeout(0);
  peer.setNoDelay(true);
  socket.pipe(peer);
  peer.pipe(socket);
  countBytes(exchange, socket, peer);
  const end = () => {
    socket.destroy();
    peer.destroy();
  };
  const endSoon = () => setTimeout(end, halfOpenMs).unref();
  for (const side of [socket, peer]) side.once("end", endSoon).once("close", end);
}

function switchingHead(answer: IncomingMessage, exchange: Exchange): string {
  const lines = ["HTTP/1.1 101 Switching Protocols"];
  const headers = [...answerHeaders(answer, exchange), ...upgradeHeaders];
  for (let at = 0; at + 1 < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}

function countBytes({ counter }: Exchange, socket: Socket, peer: Socket): void {
  socket.on("data", (chunk: Buffer) => {
    counter.bytesIn += chunk.length;
  });
  peer.on("data", (chunk: Buffer) => {
    counter.bytesOut += chunk.length;
  });
}
