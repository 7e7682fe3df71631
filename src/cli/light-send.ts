import type { IncomingMessage } from "node:http";
import type { Answer, SendOnce } from "../client/exchange.ts";

/**
 * Returns the function that sends the calls of a command. It uses node:http, because loading Node's `fetch` takes longer than the
 * rest of `pierhead list`. It uses `fetch` where node:http differs: uploads, a proxy from the environment, credentials in the URL.
 */
export function lightSend(env: Record<string, string | undefined>): SendOnce {
  const hasProxy = Boolean(env["NODE_USE_ENV_PROXY"]) || env["NODE_OPTIONS"]?.includes("--use-env-proxy") === true;
  return (url, request) => {
    const { username, password } = new URL(url);
    const isLight = !hasProxy && typeof request.body !== "object" && username === "" && password === "";
    return isLight ? sendLightly(url, request) : fetch(url, request);
  };
}

const sendLightly: SendOnce = async (url, { method, headers, body, signal }) => {
  signal.throwIfAborted();
  // An import of node:http would evaluate all of its exports and so load `fetch`.
  const { request } = process.getBuiltinModule(url.startsWith("https:") ? "node:https" : "node:http");
  return new Promise((resolve, reject) => {
    // Idle keep-alive connections of the global agent do not keep the process alive.
    const sent = request(url, { method, headers: { "user-agent": "node", ...headers }, signal });
    sent.on("response", (response) => resolve(answerOf(response)));
    sent.on("error", reject);
    sent.end(body);
  });
};

function answerOf(response: IncomingMessage): Answer {
  const { statusCode: status = 0, statusMessage: statusText = "", headers } = response;
  return {
    ok: status >= 200 && status < 300,
    status,
    statusText,
    headers: { get: (name) => headers[name.toLowerCase()]?.toString() ?? null },
    async text() {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk as Buffer);
      return new TextDecoder().decode(Buffer.concat(chunks));
    },
  };
}
