import type { Socket } from "node:net";

/**
 * Resets a connection. Destroys it if its end has been sent: Node 24 never closes such a connection after a reset, and the
 * process spins at exit.
 */
export function resetSocket(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
