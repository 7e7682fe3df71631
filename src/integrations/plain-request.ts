import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

/**
 * Sends one request and returns its answer, whose body the caller reads or drops. For addresses that the operator chose: nothing
 * checks them. Node's `fetch` would send a stream without its length, and its reader ends the process when a server closes the
 * connection while the body is written to a slow disk.
 * @throws Error of the connection; the reason of `signal`
 */
export async function sendPlain(
  url: URL,
  { body, ...options }: { method: string; headers?: OutgoingHttpHeaders; body?: Readable; signal: AbortSignal },
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request = (url.protocol === "https:" ? httpsRequest : httpRequest)(url, options);
  request.once("response", resolve).once("error", reject);
  if (body === undefined) request.end();
  // Its failure is also an error of the request, unless the server has answered before it had read everything.
  else pipeline(body, request).catch(() => {});
  return promise;
}
