import { CliFailure } from "../failure.ts";

/** Exit code 1: a pipeline reads 2 as "there are changes". */
export const wrong = (what: string, ...hints: string[]) => new CliFailure(what, { hints });

/** @throws CliFailure for a value without keys. */
export function asObject(value: unknown, at: string): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw wrong(`${at} must have keys and values.`);
}
