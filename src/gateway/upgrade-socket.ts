import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** What a client may send before its WebSocket is open; more stays in the kernel until then. */
const earlyBytesMax = 64 * 1024;

/**
 * The connection of a request that asks for another protocol. Node has let go of it: until a tunnel takes it over,
 * somebody must read it, or nobody would see the client leave.
 */
export class UpgradeSocket {
  readonly socket: Socket;
  readonly #early: Buffer[];
  #earlyBytes: number;
  readonly #buffer: (chunk: Buffer) => void;
  readonly #destroy: () => void;

  constructor(socket: Socket, head: Buffer) {
    this.socket = socket;
    this.#early = [head];
    this.#earlyBytes = head.length;
    this.#destroy = () => socket.destroy();
    this.#buffer = (chunk) => {
      this.#early.push(chunk);
      this.#earlyBytes += chunk.length;
      if (this.#earlyBytes > earlyBytesMax) socket.pause();
    };
    socket.setTimeout(0);
    socket.setNoDelay(true);
    socket.on("error", this.#destroy);
    socket.on("end", this.#destroy);
    socket.on("data", this.#buffer);
  }

  /** Hands the connection over, paused, with everything that has come in so far. */
  take(): Buffer {
    this.socket.off("data", this.#buffer);
    this.socket.off("end", this.#destroy);
    this.socket.pause();
    return Buffer.concat(this.#early);
  }

  /** A plain answer on this connection, which ends with it. */
  plainResponse(request: IncomingMessage): ServerResponse {
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(this.socket);
    response.on("finish", () => this.socket.destroySoon());
    return response;
  }
}
