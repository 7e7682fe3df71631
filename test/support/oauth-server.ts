import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** One request to the provider. */
export interface ProviderCall {
  path: string;
  form: Record<string, string>;
  headers: IncomingMessage["headers"];
}

/** Response of the provider; `raw` writes to the response directly. */
export type ProviderAnswer =
  | { status?: number; headers?: Record<string, string>; json?: unknown; text?: string }
  | { raw: (response: ServerResponse) => void };

export interface OAuthServer extends AsyncDisposable {
  url: string;
  calls: ProviderCall[];
  /** Answers the next requests; the default returns numbered tokens. */
  answer: (call: ProviderCall) => ProviderAnswer | Promise<ProviderAnswer>;
}

/**
 * Starts a provider on loopback that answers as a test requires, including lies, faults and dialects that no honest server
 * produces. The behavior of honest servers is tested with a certified one (test/auth).
 */
export async function startOAuthServer(): Promise<OAuthServer> {
  let count = 0;
  const made: OAuthServer = {
    url: "",
    calls: [],
    answer: () => {
      count += 1;
      return {
        json: {
          access_token: `access-${count}`,
          refresh_token: `refresh-${count}`,
          token_type: "Bearer",
          expires_in: 3600,
        },
      };
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const isJson = request.headers["content-type"]?.includes("json") === true && body !== "";
    const form = isJson ? JSON.parse(body) : Object.fromEntries(new URLSearchParams(body));
    const call = { path: request.url ?? "", form, headers: request.headers };
    made.calls.push(call);
    send(response, await made.answer(call));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  made.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return made;
}

function send(response: ServerResponse, answer: ProviderAnswer): void {
  if ("raw" in answer) {
    answer.raw(response);
    return;
  }
  const { status = 200, headers, json, text } = answer;
  const type = { "content-type": json === undefined ? "text/html" : "application/json" };
  response.writeHead(status, { ...type, ...headers }).end(json === undefined ? (text ?? "") : JSON.stringify(json));
}
