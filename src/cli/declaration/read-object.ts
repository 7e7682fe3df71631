import { CliFailure } from "../failure.ts";

/** Exit code 1: a pipeline reads 2 as "there are changes". */
export const wrong = (what: string, ...hints: string[]) => new CliFailure(what, { hints });

/** @throws CliFailure for a value without keys. */
export function asObject(value: unknown, at: string): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw wrong(`${at} must have keys and values.`);
}

/** Null is refused, because a key whose lines are commented out would remove everything under it. */
export function checkTexts(at: string, value: unknown): void {
  if (value === undefined) return;
  if (value === null)
    throw wrong(`${at} is empty. Write {} to have none, or remove the key to leave them as they are.`);
  for (const [name, text] of Object.entries(asObject(value, at))) {
    if (typeof text !== "string") throw wrong(`${at}.${name} must be a text. Put it into quotes.`);
  }
}
