import type { IncomingMessage } from "node:http";
import { agentHeaderPrefix } from "../contract/administration/session.ts";

/** A request of a signed-in user of the console to an agent. The control plane has authenticated and authorized the user. */
export interface ConsoleCall {
  slug: string;
  deploymentId: string;
  /** Path and query for the agent server. */
  path: string;
  /** The control plane's signed statement about the user. */
  assertion: string;
  /** The console polls. Such a call neither wakes the deployment nor keeps it awake, and is no part of its metrics. */
  isBackground?: boolean;
}

/** The headers of the browser that an agent sees. Cookies, credentials and what identifies the page are not among them. */
const sent = new Set(["accept", "accept-language", "content-type", "content-length", "last-event-id", "user-agent"]);
export const passesFromConsole = (lower: string): boolean => sent.has(lower);

/** Returns the name of a header that the user entered for this agent. Null: any other header, or one that the browser sends itself. */
export function nameForAgent(lower: string): string | null {
  if (!lower.startsWith(agentHeaderPrefix)) return null;
  const name = lower.slice(agentHeaderPrefix.length);
  return name === "" || name === "cookie" || sent.has(name) || name.startsWith("x-pierhead-") ? null : name;
}

/** The headers of an agent that the console sees: what its client needs to read the body and to page through lists. */
const received = new Set(["content-type", "content-length", "content-encoding", "retry-after", "x-pagination-total"]);
export const passesToConsole = (lower: string): boolean => received.has(lower) || lower === "x-pagination-next";

/**
 * Headers that keep an answer of an agent from being anything but data, also for a user who opens its address in a tab: the
 * console's origin must not run what an agent sends.
 */
export const dataOnly: string[] = [
  ...["content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox"],
  ...["x-content-type-options", "nosniff", "cache-control", "no-store", "cross-origin-resource-policy", "same-origin"],
];

const dataType = /^\s*(?:application\/(?:[\w.+-]+\+)?json|text\/event-stream)\s*(?:;|$)/i;

interface AnswerRefusal {
  status: number;
  detail: string;
  kind: "refused";
}

/** Returns why an answer may not reach the console, or null for JSON, an event stream or an empty answer. */
export function refusalOfAnswer({ statusCode = 502, headers }: IncomingMessage): AnswerRefusal | null {
  const type = headers["content-type"];
  if (type !== undefined && dataType.test(type)) return null;
  if (statusCode === 204 || statusCode === 304 || (type === undefined && headers["content-length"] === "0"))
    return null;
  // A status of success would promise a body. An error keeps its status, because 404 shows that this is no agent
  // server.
  const status = statusCode >= 400 ? statusCode : 406;
  const what = type === undefined ? "a body without a type" : (type.split(";", 1)[0] ?? "");
  const detail = `The agent answered ${statusCode} with ${what.slice(0, 80)}. The console reads only JSON and event streams.`;
  return { status, detail, kind: "refused" };
}
