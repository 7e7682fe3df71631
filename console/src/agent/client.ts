import { useMemo } from "react";
import { readMessages, type StreamMessage } from "../../../src/client/event-stream.ts";
import { answerHeader, backgroundHeader, consoleHeader } from "../../../src/contract/administration/session.ts";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { baseUrl, endSignedOut } from "../server.ts";
import { useSession } from "../session.tsx";
import { sentHeaders } from "./own-headers.ts";

/** A call to the agent was refused. */
export class AgentError extends Error {
  readonly status: number;
  readonly detail: string;
  /** The agent refused it. Otherwise Pierhead did, for example because the session has ended. */
  readonly isOfAgent: boolean;
  constructor(status: number, detail: string, isOfAgent: boolean) {
    super(isOfAgent ? `The agent answered ${status}: ${detail}` : `Pierhead refused the call (${status}): ${detail}`);
    this.status = status;
    this.detail = detail;
    this.isOfAgent = isOfAgent;
  }
}

/** The gateway adds it to every answer of a revision, and removes the agent's own. */
const revisionHeader = "x-pierhead-revision";

/** Answers of servers that do not know the agent API. Others, such as 503, are failures that pass. */
const foreign = new Set([404, 405, 406, 501]);
export const isForeign = (error: unknown): boolean => error instanceof AgentError && foreign.has(error.status);

type Verb = "GET" | "POST" | "PATCH" | "DELETE";

/** The agent API of one deployment, called with the session of the user. */
export interface Agent {
  call<T>(verb: Verb, path: string, body?: unknown, signal?: AbortSignal): Promise<T>;
  /** Yields the events of a run. `lastId`: continue after this event; "-1" begins at the first one. */
  stream(
    path: string,
    options: { body?: unknown; lastId?: string; signal: AbortSignal },
  ): AsyncGenerator<StreamMessage>;
}

/** An agent that thinks sends nothing for long. The gateway ends a request after an hour. */
const silenceMaxMs = 3_600_000;

/** @param options.isBackground the calls neither wake a sleeping deployment nor keep it awake. */
export function createAgent(
  deploymentId: string,
  workspaceId: string,
  { isBackground = false }: { isBackground?: boolean } = {},
): Agent {
  const base = `${baseUrl}/v2/deployments/${deploymentId}/agent`;
  const send = async (verb: Verb, path: string, options: { body?: unknown; lastId?: string; signal?: AbortSignal }) => {
    const headers: Record<string, string> = {
      ...sentHeaders(deploymentId),
      ...{ [consoleHeader]: "1", "x-tenant-id": workspaceId },
    };
    if (isBackground) headers[backgroundHeader] = "1";
    if (options.body !== undefined) headers["content-type"] = "application/json";
    if (isAnswer(options.body)) headers[answerHeader] = "1";
    if (options.lastId !== undefined) headers["last-event-id"] = options.lastId;
    const answer = await fetch(base + path, {
      ...{ method: verb, headers, credentials: "same-origin", redirect: "manual" },
      ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
      ...(options.signal !== undefined && { signal: options.signal }),
    });
    if (!answer.ok) {
      const isOfAgent = answer.headers.has(revisionHeader);
      if (answer.status === 401 && !isOfAgent) endSignedOut();
      throw new AgentError(answer.status, await detailOf(answer), isOfAgent);
    }
    return answer;
  };
  return {
    async call(verb, path, body, signal) {
      const answer = await send(verb, path, { body, ...(signal !== undefined && { signal }) });
      const text = await answer.text();
      return (text === "" ? null : JSON.parse(text)) as never;
    },
    async *stream(path, { body, lastId, signal }) {
      const verb = body === undefined ? "GET" : "POST";
      const answer = await send(verb, path, { body, signal, ...(lastId !== undefined && { lastId }) });
      if (answer.body !== null) yield* readMessages(answer.body, "", silenceMaxMs);
    },
  };
}

const isAnswer = (body: unknown) =>
  (body as { command?: { resume?: unknown } | null } | undefined)?.command?.resume !== undefined;

export function useAgent({ id, tenant_id }: Deployment): Agent {
  const { workspaceId } = useSession();
  return useMemo(() => createAgent(id, tenant_id || workspaceId), [id, tenant_id, workspaceId]);
}

const detailLengthMax = 300;

async function detailOf(answer: Response): Promise<string> {
  const text = await answer.text();
  try {
    const value = JSON.parse(text) as Record<string, unknown>;
    const detail = value["detail"] ?? value["message"] ?? value["error"] ?? text;
    return (typeof detail === "string" ? detail : JSON.stringify(detail)).slice(0, detailLengthMax);
  } catch {
    return text.slice(0, detailLengthMax);
  }
}

/** Encodes an id that an agent chose: `../..` would lead out of the agent. */
export const segment = (id: string): string => encodeURIComponent(id);
