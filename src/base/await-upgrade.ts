import type { ClientRequest, IncomingMessage } from "node:http";
import type { Socket } from "node:net";

interface UpgradeLimits {
  /** Deadline of the answer, in milliseconds. The connection itself has none. */
  timeoutMs: number;
  /** Message of the error at the deadline. */
  late?: string;
  /** Reads an answer that refuses, and returns the error for it. */
  refused(answer: IncomingMessage): Promise<Error>;
  /** Returns the error for a connection that failed, or for the deadline. */
  failed?(error: Error): unknown;
}

/**
 * Waits until the other side accepts the upgrade that a request asks for. Bytes that came with the answer stay in the socket.
 * @throws what `refused` or `failed` returns
 */
export function awaitUpgrade(
  sent: ClientRequest,
  { timeoutMs, late = "no answer in time", refused, failed = (error) => error }: UpgradeLimits,
): Promise<{ socket: Socket; answer: IncomingMessage }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ socket: Socket; answer: IncomingMessage }>();
  const timer = setTimeout(() => sent.destroy(new Error(late)), timeoutMs);
  sent.on("upgrade", (answer, socket: Socket, head) => {
    if (head.length > 0) socket.unshift(head);
    socket.setNoDelay(true);
    resolve({ socket, answer });
  });
  sent.on("response", (answer) => void refused(answer).then(reject, reject));
  sent.on("error", (error) => reject(failed(error)));
  return promise.finally(() => clearTimeout(timer));
}
