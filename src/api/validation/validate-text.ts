import { readTimestamp } from "./timestamp-text.ts";
import { readUuid } from "./uuid-text.ts";
import { type Check, report } from "./validate-walk.ts";

interface TextRules {
  format?: string;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
}

/** Checks strings, without coercion. Lengths count code points. UUIDs and timestamps are strings with a format. */
export function compileString(rules: TextRules): Check {
  if (rules.format === "uuid") return checkUuid;
  if (rules.format === "date-time") return checkTimestamp;
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern } = rules;
  const expression = pattern === undefined ? undefined : new RegExp(pattern, "u");
  return (value, walk) => {
    if (typeof value !== "string") return report(walk, "string_type", "Input should be a valid string", value);
    if (!value.isWellFormed()) {
      const msg = "Input should be a valid string, unable to parse raw data as a unicode string";
      return report(walk, "string_unicode", msg, value.toWellFormed());
    }
    if (value.length < 2 * minLength && codePoints(value) < minLength) {
      const msg = `String should have at least ${characters(minLength)}`;
      return report(walk, "string_too_short", msg, value, { min_length: minLength });
    }
    if (value.length > maxLength && codePoints(value) > maxLength) {
      const msg = `String should have at most ${characters(maxLength)}`;
      return report(walk, "string_too_long", msg, value, { max_length: maxLength });
    }
    if (expression !== undefined && !expression.test(value)) {
      return report(walk, "string_pattern_mismatch", `String should match pattern '${pattern}'`, value, { pattern });
    }
    if (value.includes("\u0000")) return report(walk, "value_error", `Value error, ${noNul}`, value, { error: {} });
    return value;
  };
}

const noNul = "NUL characters are not allowed";

/** Returns whether PostgreSQL can store the text: no NUL and no lone surrogate. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes("\u0000");
}

const characters = (count: number) => `${count} character${count === 1 ? "" : "s"}`;

function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

const checkUuid: Check = (value, walk) => {
  if (typeof value !== "string") {
    return report(walk, "uuid_type", "UUID input should be a string, bytes or UUID object", value);
  }
  const read = readUuid(value);
  if ("uuid" in read) return read.uuid;
  return report(walk, "uuid_parsing", `Input should be a valid UUID, ${read.error}`, value, { error: read.error });
};

const checkTimestamp: Check = (value, walk) => {
  if (typeof value !== "string" && typeof value !== "number") {
    return report(walk, "datetime_type", "Input should be a valid datetime", value);
  }
  const read = readTimestamp(value);
  if ("timestamp" in read) return read.timestamp;
  const msg = `Input should be a valid datetime or date, ${read.error}`;
  return report(walk, "datetime_from_date_parsing", msg, value, { error: read.error });
};

/** Checks a closed set of values. The error lists them as Python prints them. */
export function compileLiteral(values: readonly unknown[]): Check {
  const allowed = new Set(values);
  const shown = values.map((value) => (typeof value === "string" ? `'${value}'` : String(value)));
  const expected = shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} or ${shown.at(-1)}`;
  return (value, walk) => {
    if (allowed.has(value)) return value;
    return report(walk, "literal_error", `Input should be ${expected}`, value, { expected });
  };
}
