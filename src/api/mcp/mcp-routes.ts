import type { FastifyRequest } from "fastify";
import { mayCall } from "../../auth/permissions.ts";
import { type Client, createClient } from "../../client/client.ts";
import type { SendOnce } from "../../client/exchange.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { credentialsOf } from "../http/authenticate.ts";
import { type Api, route } from "../http/route.ts";

/**
 * Headers that decide who calls, for which workspace, and at which address, which the addresses of agents follow. The tools call the API with
 * them, so every rule of the API applies.
 */
const passedOn = ["host", "x-api-key", "authorization", "x-tenant-id", "x-organization-id", "x-forwarded-for"] as const;

/**
 * Serves the tools of `src/mcp` over streamable HTTP (decision 0059). Each request gets a server of its own, so requests share no
 * state and any server of the installation can answer.
 */
export function addMcpRoutes(api: Api): void {
  const { version } = api.deps.settings;

  route(api, operations.callMcp, async ({ principal, query, body, request, signal, takeOver }) => {
    // A session cookie must not be enough: pages could otherwise act for the person who opened them.
    if (credentialsOf(request.headers).key === undefined) throw errors.invalidToken("Send a key in X-Api-Key.");
    refuseMisspelled(request.query as Record<string, unknown>);
    // Most servers are never asked, and the protocol takes some 10 MB.
    const [{ createMcpHandler }, { createMcpServer }] = await Promise.all([
      import("@modelcontextprotocol/server"),
      import("../../mcp/mcp-server.ts"),
    ]);
    const mayUse = (role: "reader" | "deployer") => mayCall(principal.role, role);
    const options = { client: clientOf(api, request), signal, version, isReadOnly: query.read_only === true, mayUse };
    // The tools send no notifications, so there is nothing to subscribe to.
    const handler = createMcpHandler(() => createMcpServer(options), { maxSubscriptions: 0 });
    try {
      const answer = await handler.fetch(asWebRequest(request, signal), { parsedBody: body });
      const text = await answer.text();
      // Of the SDK, which says keep-alive to a client that closes the connection.
      answer.headers.delete("connection");
      const response = takeOver(Object.fromEntries(answer.headers), answer.status);
      const isRefusable = false;
      api.unreadAnswers.hold({ owner: principal.tenantId, bytes: Buffer.byteLength(text), isRefusable }, response);
      response.end(text);
    } finally {
      await handler.close();
    }
  });
}

/** Rejects `readOnly` and the like, which would offer all tools to a model that its user wants to only read. */
function refuseMisspelled(query: Record<string, unknown>): void {
  const name = Object.keys(query).find(
    (one) => one !== "read_only" && one.replace(/\W|_/g, "").toLowerCase() === "readonly",
  );
  if (name === undefined) return;
  throw errors.invalidRequest([
    { type: "extra_forbidden", loc: ["query", name], msg: "Write it as read_only=true.", input: query[name] },
  ]);
}

/** Returns the request without credentials, for the SDK. */
function asWebRequest({ headers }: FastifyRequest, signal: AbortSignal): Request {
  const protocol = Object.entries(headers).filter(([name]) => name.startsWith("mcp-"));
  return new Request("http://localhost/mcp", {
    method: "POST",
    headers: {
      ...(Object.fromEntries(protocol) as Record<string, string>),
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: "{}",
    signal,
  });
}

/** Returns a client whose calls pass the routes of this process as the caller's own: authentication, rate limits, audit. */
function clientOf({ server }: Api, request: FastifyRequest): Client {
  const headers: Record<string, string> = {};
  for (const name of passedOn) {
    const value = request.headers[name];
    if (value !== undefined) headers[name] = String(value);
  }
  const send: SendOnce = async (url, { method, headers: own, body, signal }) => {
    const { pathname, search } = new URL(url);
    const answer = await server.inject({
      method: method as "GET",
      url: pathname + search,
      headers: { ...own, ...headers },
      remoteAddress: request.raw.socket.remoteAddress ?? "",
      ...(typeof body === "string" && { payload: body }),
      ...(signal && { signal }),
    });
    return new Response(answer.payload === "" ? null : answer.payload, {
      status: answer.statusCode,
      headers: Object.entries(answer.headers).map(([name, value]) => [name, String(value)] as [string, string]),
    });
  };
  const noStreams = () => Promise.reject(new Error("a tool must not open a stream"));
  return createClient({ baseUrl: "http://localhost", send, fetch: noStreams });
}
