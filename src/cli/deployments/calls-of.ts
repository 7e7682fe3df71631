import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import { harmless } from "../terminal/terminal.ts";

/** The agent has just become healthy, so it answers within milliseconds. Suggestions are not worth a longer wait. */
const answerTimeoutMs = 2_000;

/**
 * Returns lines that say how to call an agent: by the LangGraph protocol if Pierhead runs its server. Of other servers it requests the
 * usual addresses, because their frameworks decide which of them exist. Returns nothing if none answers.
 */
export async function callsOf(
  { name, url }: Pick<Deployment, "name" | "url">,
  { engine }: Pick<Revision, "engine">,
  signal: AbortSignal,
): Promise<string[]> {
  if (engine != null && engine !== "own") return [`pierhead invoke ${name} "Hello"`];
  if (url === null || !URL.canParse(url)) return [];
  const address = harmless(url).replace(/\/+$/, "");
  // One after the other, because each request may leave a line in the agent's log.
  const docs = await ask(`${address}/docs`, signal);
  if (docs?.status === 200 && /openapi|swagger/i.test(docs.body)) return [`Open ${address}/docs`];
  const mcp = await ask(`${address}/mcp`, signal, ping);
  if (mcp?.body.includes('"jsonrpc"'))
    return [`Connect an MCP client to ${address}/mcp`, `claude mcp add --transport http ${name} ${address}/mcp`];
  const card = await ask(`${address}/.well-known/agent-card.json`, signal);
  if (card?.status === 200 && /"skills"\s*:/.test(card.body)) return [`curl ${address}/.well-known/agent-card.json`];
  const root = await ask(`${address}/`, signal);
  return root !== undefined && root.status < 400 ? [`curl ${root.isRedirect ? "-L " : ""}${address}/`] : [];
}

/** Changes nothing. A server with sessions refuses it, also in JSON-RPC. */
const ping = {
  method: "POST",
  headers: { accept: "application/json, text/event-stream", "content-type": "application/json" },
  body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
};

interface Answer {
  status: number;
  body: string;
  isRedirect: boolean;
}

async function ask(url: string, signal: AbortSignal, request: RequestInit = {}): Promise<Answer | undefined> {
  try {
    const response = await fetch(url, {
      headers: { accept: "application/json, text/html" },
      ...request,
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerTimeoutMs)]),
    });
    return { status: response.status, body: await beginningOf(response), isRedirect: response.redirected };
  } catch {
    return undefined;
  }
}

/** Bytes of an answer in which its kind shows. The first page of a site may be large. */
const beginningMax = 64 * 1024;

async function beginningOf({ body }: Response): Promise<string> {
  let text = "";
  if (body === null) return text;
  for await (const part of body.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.length >= beginningMax) break;
  }
  return text;
}
