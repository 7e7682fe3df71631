import { readMessages, type StreamMessage } from "../../client/event-stream.ts";
import { callsOf } from "../deployments/calls-of.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { CliFailure, exitCodes, usageFailure } from "../failure.ts";
import { isSameOrigin } from "../login/contexts.ts";
import type { Session } from "../session.ts";

/** Option of the commands that call an agent. */
export interface AgentOptions {
  sendKey?: boolean;
}

/** The agent protocol of one deployment, at its address. */
export interface Agent {
  name: string;
  url: string;
  call<T>(verb: "GET" | "POST", path: string, body?: unknown): Promise<T>;
  /** Yields the messages of a run as they come. A silence of `silenceMs` ends it. */
  stream(path: string, body: unknown, silenceMs: number): AsyncGenerator<StreamMessage, void, undefined>;
}

/** An answer of more than this is an error of the agent, not a list of threads. */
const answerBytesMax = 64 << 20;

/** Time for an agent that sleeps to start, and to answer a short question. */
const answerDeadlineMs = 120_000;

/**
 * Finds a deployment and returns its agent protocol. The key is sent only if the gateway of the control plane asks for one, which does
 * not pass it on, or with `--send-key`: the owner of a data plane chooses the addresses of its agents, and an agent that asks itself
 * would receive the key.
 */
export async function openAgent(session: Session, nameOrId: string, { sendKey }: AgentOptions): Promise<Agent> {
  const { name, url: address } = await findDeployment(session, nameOrId);
  if (address === null) throw new CliFailure(`${name} has no address yet.`, { hints: [`Why: pierhead why ${name}`] });
  const url = address.replace(/\/+$/, "");
  const { url: server, apiKey } = await session.connection();
  const mayHaveKey = sendKey === true || isSameOrigin(server, url);
  let isAsked = false;
  const send = async (verb: string, path: string, body: unknown, signal: AbortSignal): Promise<Response> => {
    const headers = {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(isAsked && apiKey !== undefined ? { "x-api-key": apiKey } : {}),
    };
    const request = { method: verb, headers, signal, redirect: "manual" as const };
    const response = await fetch(
      `${url}${path}`,
      body === undefined ? request : { ...request, body: JSON.stringify(body) },
    );
    const asks = response.status === 401 && (sendKey === true || isOfGateway(response));
    if (!asks || isAsked || !mayHaveKey || apiKey === undefined) return response;
    await response.body?.cancel();
    isAsked = true;
    return send(verb, path, body, signal);
  };
  const open = async (verb: string, path: string, body: unknown, signal: AbortSignal) => {
    const response = await send(verb, path, body, signal).catch((error: Error) => {
      session.signal.throwIfAborted();
      const reason =
        error.name === "TimeoutError" ? "no answer in time" : `${(error.cause as Error)?.message ?? error.message}`;
      throw new CliFailure(`${name} did not answer at ${url}: ${reason}.`, { hints: [`Why: pierhead why ${name}`] });
    });
    if (response.ok) return response;
    const asksItself = mayHaveKey && !isAsked && !isOfGateway(response);
    const called = { name, url, path, isTold: mayHaveKey, asksItself };
    throw await refusal(called, response.status, (await response.text()).slice(0, 2_000), session.signal);
  };
  return {
    name,
    url,
    async call<T>(verb: string, path: string, body?: unknown) {
      const signal = AbortSignal.any([session.signal, AbortSignal.timeout(answerDeadlineMs)]);
      const response = await open(verb, path, body, signal);
      const text = await response.text();
      if (text.length > answerBytesMax) throw new CliFailure(`${name} sent too much for one answer.`);
      try {
        return JSON.parse(text) as T;
      } catch {
        throw await notLangGraph(name, url, session.signal);
      }
    },
    async *stream(path, body, silenceMs) {
      const response = await open("POST", path, body, session.signal);
      if (response.body !== null) yield* readMessages(response.body, "", silenceMs);
    },
  };
}

interface Called {
  name: string;
  url: string;
  path: string;
  /** Whether the key was sent when the agent asked for it. */
  isTold: boolean;
  /** Whether the agent, and not the gateway before it, refused a request without a key. */
  asksItself: boolean;
}

/** Reports whether an answer can be the gateway's own: it names the revision in each answer of an agent, which cannot prevent that. */
const isOfGateway = ({ headers }: Response) => headers.get("x-pierhead-revision") === null;

async function refusal(
  { name, url, path, isTold, asksItself }: Called,
  status: number,
  text: string,
  signal: AbortSignal,
): Promise<CliFailure> {
  if (status === 404 && path === "/assistants/search") return notLangGraph(name, url, signal);
  if (status === 401 && asksItself) {
    return new CliFailure(`${name} asks for a key itself, and would receive yours.`, {
      exitCode: exitCodes.auth,
      hints: ["If you trust this agent, send it your key: --send-key"],
    });
  }
  if (status === 401 && !isTold) {
    return new CliFailure(`${name} asks for a key, and answers at another address than the server: ${url}`, {
      exitCode: exitCodes.auth,
      hints: ["If you trust this address, send it your key: --send-key"],
    });
  }
  const hints = status === 404 ? [] : [`Its log: pierhead logs ${name}`];
  const exitCode = status === 401 || status === 403 ? exitCodes.auth : exitCodes.error;
  return new CliFailure(`${name} answered ${path} with ${status}.`, { because: text || null, hints, exitCode });
}

async function notLangGraph(name: string, url: string, signal: AbortSignal): Promise<CliFailure> {
  const calls = await callsOf({ name, url }, { engine: "own" }, signal);
  return new CliFailure(`${name} does not speak the agent protocol (assistants, threads, runs).`, {
    hints: calls.length > 0 ? calls : [`Call its own paths, at ${url}`],
  });
}

export interface Assistant {
  assistant_id: string;
  graph_id: string;
  name?: string;
}

/** Returns the assistant with this id, name or graph, or the only one. */
export async function findAssistant(agent: Agent, wanted: string | undefined): Promise<Assistant> {
  const all = await agent.call<Assistant[]>("POST", "/assistants/search", { limit: 100 });
  const fitting = all.filter(
    ({ assistant_id, graph_id, name }) => wanted === undefined || [assistant_id, graph_id, name].includes(wanted),
  );
  // Each graph has a default assistant with the name of the graph.
  const [only, another] =
    fitting.length > 1 && wanted !== undefined ? fitting.filter(({ name }) => name === wanted) : fitting;
  if (only !== undefined && another === undefined) return only;
  if (all.length === 0) throw new CliFailure(`${agent.name} has no assistants.`);
  const names = [...new Set(all.map(({ graph_id }) => graph_id))].join(", ");
  if (wanted === undefined)
    throw usageFailure(`${agent.name} has ${all.length} assistants: ${names}.`, "Choose one: --assistant NAME");
  throw usageFailure(`${agent.name} has no single assistant ${wanted}.`, `Assistants: ${names}`);
}

/** Returns the text of a message: a string, or the text parts of a list. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part: { type?: string; text?: unknown }) => (typeof part?.text === "string" ? part.text : ""))
    .join("");
}
