import type { FoundLogEntry } from "../../../src/contract/logs/search.ts";

export interface LineFields {
  text: string;
  /** The fields of a message that is a JSON object, without its text. */
  fields: [name: string, value: string][];
  /** The object, to be shown in full. */
  json: Record<string, unknown> | null;
}

/** Names under which loggers write the text of a line. */
const textNames = ["message", "msg", "event"];

/** Splits a message into its text and its fields. Messages that are not JSON have none. */
export function fieldsOf(message: string): LineFields {
  const json = message.startsWith("{") ? objectOf(message) : null;
  if (json === null) return { text: message, fields: [], json };
  const name = textNames.find((one) => typeof json[one] === "string");
  const fields = Object.entries(json).filter(([key]) => key !== name);
  return {
    text: name === undefined ? "" : String(json[name]),
    fields: fields.map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]),
    json,
  };
}

function objectOf(message: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(message);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

const uuid = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";

/** Returns the id that the message names, as `run_id=…` or `"run_id": "…"`. */
export function idIn({ message }: FoundLogEntry, name: "run_id" | "thread_id"): string | undefined {
  return new RegExp(`\\b${name}["']?\\s*[=:]\\s*["']?(${uuid})`).exec(message)?.[1];
}

/** Returns the time of day of a line in the browser's zone, to the millisecond. */
export function clockOf(timestamp: string): string {
  const at = new Date(timestamp);
  const two = (part: number) => String(part).padStart(2, "0");
  const ms = String(at.getMilliseconds()).padStart(3, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${ms}`;
}
