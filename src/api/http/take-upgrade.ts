import type { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import { errors } from "../../contract/error.ts";
import { upgradeOf } from "../../gateway/upgrade-socket.ts";

export interface AskedUpgrade {
  socket: Socket;
  /** Answers 101 and takes the connection over. Bytes that have arrived already are put back into it. */
  accept(protocol: string): Socket;
}

/** Returns the connection of an upgrade request. @throws ApiError 404 for any other request, as for an unknown path */
export function askedUpgrade(request: FastifyRequest, reply: FastifyReply): AskedUpgrade {
  const upgrade = upgradeOf(request.raw);
  if (upgrade === undefined) throw errors.routeNotFound();
  const { socket } = upgrade;
  return {
    socket,
    accept(protocol) {
      reply.hijack();
      if (socket.destroyed) return socket; // The client left before it was admitted.
      reply.raw.detachSocket(socket);
      const head = upgrade.take();
      if (head.length > 0) socket.unshift(head);
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: ${protocol}\r\n\r\n`);
      return socket;
    },
  };
}
