import type { LogCounts } from "../../../src/contract/logs/search.ts";
import { type LogField, logFields, logLevelNames } from "../../../src/domain/log-query.ts";

/** A text that completes the word before the cursor. */
export interface Completion {
  /** What is shown: a field with its colon, or a value. */
  text: string;
  /** Lines with this value. null: unknown. */
  count: number | null;
  /** The query with the completion, and the place of the cursor in it. */
  query: string;
  cursor: number;
}

const shownMax = 8;

/** Returns what can complete the word before the cursor: fields, then the values of a field that the found lines have. */
export function completionsOf(
  query: string,
  cursor: number,
  counts: LogCounts | null,
  without: readonly LogField[] = [],
): Completion[] {
  const before = query.slice(0, cursor);
  // Within a phrase nothing is a field.
  if ((before.match(/"/g)?.length ?? 0) % 2 === 1) return [];
  const word = /[^\s]*$/.exec(before)?.[0] ?? "";
  const [, minus = "", field, typed = ""] = /^(-?)(?:([A-Za-z]+):(?:[^,]*,)*)?([^:,]*)$/.exec(word) ?? [];
  const start = cursor - typed.length;
  const insert = (text: string, count: number | null, end: string): Completion => {
    const inserted = `${/[\s",]/.test(text) ? JSON.stringify(text) : text}${end}`;
    return {
      text,
      count,
      query: query.slice(0, start) + inserted + query.slice(cursor),
      cursor: start + inserted.length,
    };
  };
  const matches = (text: string) => text.toLowerCase().startsWith(typed.toLowerCase()) && text !== typed;
  if (field === undefined) {
    if (typed === "" && minus === "") return [];
    return logFields
      .filter((name) => matches(name) && !without.includes(name))
      .map((name) => ({ ...insert(name, null, ":"), text: `${name}:` }));
  }
  if (without.includes(field as LogField)) return [];
  return valuesOf(field as LogField, counts)
    .filter(({ value }) => matches(value))
    .slice(0, shownMax)
    .map(({ value, count }) => insert(value, count, ""));
}

function valuesOf(field: LogField, counts: LogCounts | null): { value: string; count: number | null }[] {
  const countOf = (level: string) => counts?.levels.find((one) => one.level === level)?.count ?? null;
  switch (field) {
    case "level":
      return logLevelNames.toReversed().map((level) => ({ value: level.toLowerCase(), count: countOf(level) }));
    case "deployment":
      return (counts?.deployments ?? []).map(({ name, count }) => ({ value: name, count }));
    case "source":
      return (["build", "deploy"] as const).map((value) => ({
        value,
        count: counts?.sources.find(({ source }) => source === value)?.count ?? null,
      }));
    case "stream":
      return ["stdout", "stderr"].map((value) => ({ value, count: null }));
    default:
      return [];
  }
}
