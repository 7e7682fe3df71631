import { isDeepStrictEqual } from "node:util";

/** Changed fields, each with its value before and after; an absent value is null. */
export type Changes = Record<string, { before: unknown; after: unknown }>;

/** Changed secrets: names, never values. */
export interface SecretChanges {
  added: string[];
  removed: string[];
  changed: string[];
}

/**
 * Returns the changes of plain settings for the audit log. Objects are compared field by field, so that one changed number
 * does not hide in a large spec: `{"source_config.build_on_push": {"before": false, "after": true}}`.
 */
export function changesBetween(before: object, after: object): Changes {
  const found: Changes = {};
  compare(found, "", before, after);
  return found;
}

export function secretChangesBetween(before: Record<string, string>, after: Record<string, string>): SecretChanges {
  const names = { before: Object.keys(before), after: Object.keys(after) };
  return {
    added: names.after.filter((name) => !Object.hasOwn(before, name)).sort(),
    removed: names.before.filter((name) => !Object.hasOwn(after, name)).sort(),
    changed: names.after.filter((name) => Object.hasOwn(before, name) && before[name] !== after[name]).sort(),
  };
}

/** JSON characters of one value, and of all values or names of one row. Rows are kept without limit, and a page has 100 of them. */
const valueLengthMax = 2_048;
const rowLengthMax = 16_384;

/** Returns changes as they may be stored: long values are cut, and what does not fit is counted. */
export function boundedChanges(changes: Changes): Changes {
  const kept: Changes = {};
  const entries = Object.entries(changes);
  let length = 0;
  for (const [at, [field, { before, after }]] of entries.entries()) {
    const change = { before: boundedValue(before), after: boundedValue(after) };
    length += field.length + JSON.stringify(change).length;
    if (length > rowLengthMax) return { ...kept, "…": { before: null, after: moreOf(entries.length - at) } };
    kept[field] = change;
  }
  return kept;
}

/** Returns secrets as their changes may be stored: names that do not fit are counted. */
export function boundedSecretChanges({ added, removed, changed }: SecretChanges): SecretChanges {
  let length = 0;
  const bounded = (names: string[]): string[] => {
    const end = names.findIndex((name) => {
      length += name.length;
      return length > rowLengthMax;
    });
    return end === -1 ? names : [...names.slice(0, end), moreOf(names.length - end)];
  };
  return { added: bounded(added), removed: bounded(removed), changed: bounded(changed) };
}

const moreOf = (count: number) => `… and ${count} more`;

/** Returns the value, or the beginning of its JSON if it is long. */
export function boundedValue(value: unknown): unknown {
  const text = JSON.stringify(value) ?? "null";
  return text.length <= valueLengthMax
    ? value
    : `${text.slice(0, valueLengthMax).toWellFormed()}… (${text.length} characters)`;
}

function compare(found: Changes, path: string, before: unknown, after: unknown): void {
  if (isDeepStrictEqual(before, after)) return;
  if (!isPlain(before) || !isPlain(after)) {
    found[path] = { before: withoutValues(before ?? null), after: withoutValues(after ?? null) };
    return;
  }
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    compare(found, path === "" ? key : `${path}.${key}`, own(before, key), own(after, key));
  }
}

/** Names come from requests, and one may equal a built-in property such as `constructor`. */
const own = (of: Record<string, unknown>, key: string): unknown => (Object.hasOwn(of, key) ? (of[key] ?? null) : null);

/** Masks environment variables of sidecars (`env: [{name, value}]`), which often contain secrets. */
function withoutValues(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutValues);
  if (!isPlain(value)) return value instanceof Date ? value.toISOString() : value;
  const isVariable = typeof value["name"] === "string" && typeof value["value"] === "string";
  const shown = isVariable ? { ...value, value: mask } : value;
  return Object.fromEntries(Object.entries(shown).map(([key, inner]) => [key, withoutValues(inner)]));
}

const mask = "**********";

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
