import type { Socket } from "node:net";

/**
 * Resets a connection. One whose end is under way cannot be reset: Node 24 then never closes it, and the process spins for
 * ever when it is to end.
 */
export function resetSocket(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
