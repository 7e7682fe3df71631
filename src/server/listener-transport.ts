import type { FastifyInstance } from "fastify";
import type { Send } from "../client/listener-client.ts";

/**
 * Carries the listener protocol inside the process: the same routes, checks and answers as over HTTP, without a socket.
 * The listener cannot tell the difference, which is what makes a laptop and a cluster one code path.
 */
export function inProcessSend(api: FastifyInstance, apiKey: string): Send {
  return async ({ method, path, body, headers, signal }) => {
    signal.throwIfAborted();
    const answer = await api.inject({
      method,
      url: path,
      headers: { ...headers, "x-api-key": apiKey },
      signal,
      ...(body === undefined ? {} : { payload: body as object }),
    });
    return { status: answer.statusCode, body: answer.payload === "" ? undefined : answer.json() };
  };
}
