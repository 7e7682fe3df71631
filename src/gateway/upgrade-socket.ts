import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

const asked = new WeakMap<IncomingMessage, UpgradeSocket>();

/** Remembers the connection of an upgrade request that an ordinary handler will answer or take over. */
export const rememberUpgrade = (request: IncomingMessage, socket: UpgradeSocket) => void asked.set(request, socket);

/** Returns the connection of an upgrade request; undefined for any other request. */
export const upgradeOf = (request: IncomingMessage): UpgradeSocket | undefined => asked.get(request);

/** Bytes that are buffered before a WebSocket is open. More stays in the kernel until then. */
const earlyBytesMax = 64 * 1024;

/**
 * The connection of an upgrade request, which Node has released. Until a tunnel takes it over, this class reads it, because
 * otherwise the gateway would not notice that the client left.
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

  /** Pauses and hands over the connection. Returns all bytes that have arrived so far. */
  take(): Buffer {
    this.socket.off("data", this.#buffer);
    this.socket.off("end", this.#destroy);
    this.socket.pause();
    return Buffer.concat(this.#early);
  }

  /** Returns a response for a plain answer, which ends the connection. */
  plainResponse(request: IncomingMessage): ServerResponse {
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(this.socket);
    response.on("finish", () => this.socket.destroySoon());
    return response;
  }
}
