import { authorOf, type Message, messagesIn, type Run, textOfMessage, type Values } from "./types.ts";

const nameMax = 120;

/** Returns what a run was started with, as its users know it: their text, their answer to a question, or other values. */
export function nameOfRun({ kwargs }: Run, messages: readonly Message[] = []): string {
  const { input, command } = kwargs ?? {};
  const said = [messages, messagesIn(asValues(input))].map(askedIn).find((text) => text !== "");
  if (said !== undefined) return said.slice(0, nameMax);
  const resume = command?.resume;
  if (resume != null)
    return `Answer: ${typeof resume === "string" ? resume : JSON.stringify(resume)}`.slice(0, nameMax);
  const values = Object.entries(asValues(input) ?? {}).filter(([key]) => key !== "messages");
  if (values.length === 0) return "Run without input";
  return values
    .map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ")
    .slice(0, nameMax);
}

const asValues = (input: unknown): Values | null =>
  typeof input === "object" && input !== null && !Array.isArray(input) ? (input as Values) : null;

/** Returns the last text of a person, or "". */
function askedIn(messages: readonly Message[]): string {
  const asked = messages.findLast((message) => authorOf(message) === "human");
  return asked === undefined ? "" : textOfMessage(asked).trim();
}

/** Returns the language models that wrote messages, each once. Agents that hide their models have none. */
export function modelsIn(messages: readonly Message[]): string[] {
  const names = messages.map(({ response_metadata: about }) => about?.model_name ?? about?.model);
  return [...new Set(names.filter((name) => typeof name === "string" && name !== ""))] as string[];
}

/** Returns when a run began: the time of today, or the date as well. */
export function startOfRun({ created_at: at }: Run): string {
  if (at === undefined || Number.isNaN(Date.parse(at))) return "";
  const begin = new Date(at);
  const time = begin.toLocaleTimeString(undefined, { hourCycle: "h23" });
  if (begin.toDateString() === new Date().toDateString()) return time;
  return `${begin.toLocaleDateString(undefined, { day: "numeric", month: "short" })}, ${time}`;
}
