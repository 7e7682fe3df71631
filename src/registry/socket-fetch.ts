import { type IncomingMessage, request } from "node:http";
import { Readable } from "node:stream";

/** Sends a request over a Unix socket, like `fetch`, which supports no sockets. It follows no redirects. */
export async function fetchOverSocket(
  socketPath: string,
  url: string,
  {
    method = "GET",
    headers = {},
    signal,
  }: { method?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Response> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request(url, { socketPath, method, headers, agent: false, ...(signal && { signal }) })
      .on("response", resolve)
      .on("error", reject)
      .end();
  });
  const status = answer.statusCode ?? 502;
  const found = Object.entries(answer.headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  );
  const hasBody = method !== "HEAD" && status !== 204 && status !== 304;
  if (!hasBody) answer.resume();
  return new Response(hasBody ? (Readable.toWeb(answer) as ReadableStream) : null, { status, headers: found });
}
