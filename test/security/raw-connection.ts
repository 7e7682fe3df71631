import { connect, type Socket } from "node:net";
import { errorHeader } from "../../src/contract/error.ts";

/** A connection on which a test sends bytes as they are, and never more than it says. */
export interface RawConnection extends Disposable {
  socket: Socket;
  send(text: string | Buffer): void;
  /** Resolves with the head of the first answer; status 0 when the server closes the connection without one. */
  answer: Promise<{ status: number; code: string | null }>;
  closed: Promise<void>;
}

export function openRaw(url: string): RawConnection {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const answer = Promise.withResolvers<{ status: number; code: string | null }>();
  const closed = Promise.withResolvers<void>();
  let received = "";
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    if (!received.includes("\r\n\r\n")) return;
    const [, status] = /^HTTP\/1\.1 (\d+)/.exec(received) ?? [];
    const [, code = null] = new RegExp(`^${errorHeader}: (\\w+)\r$`, "im").exec(received) ?? [];
    answer.resolve({ status: Number(status), code });
  });
  // A server may reset a connection that still sends.
  socket.on("error", () => {});
  socket.on("close", () => {
    answer.resolve({ status: 0, code: null });
    closed.resolve();
  });
  return {
    socket,
    send: (text) => void socket.write(text),
    answer: answer.promise,
    closed: closed.promise,
    [Symbol.dispose]: () => void socket.destroy(),
  };
}

/** Returns the head of a request that announces a body of `length` bytes. */
export function headOf(
  { verb = "POST", path, length }: { verb?: string; path: string; length: number },
  headers: Record<string, string> = {},
): string {
  const all = { host: "x", "content-type": "application/json", "content-length": String(length), ...headers };
  return `${verb} ${path} HTTP/1.1\r\n${Object.entries(all)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")}\r\n`;
}
