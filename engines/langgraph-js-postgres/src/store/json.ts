/**
 * Returns the text of a value for a `json` column. It keeps every string, because `JSON.stringify` escapes NUL and lone
 * surrogates, and `json` accepts the escapes.
 */
export function exact(value: unknown): string {
  return JSON.stringify(value) ?? "null";
}

/** Returns the text of a value for a `jsonb` column or parameter, which refuse NUL and lone surrogates. */
export function searchable(value: unknown): string {
  return exact(value).replace(/\\\\|\\u(0000|d[89a-f][0-9a-f]{2})/gi, (found) =>
    found === "\\\\" ? found : "\\ufffd",
  );
}

/** Replaces NUL and lone surrogates, which `text` columns refuse. */
export function plainText(text: string): string {
  return text.replaceAll("\0", "\ufffd").toWellFormed();
}

/** Parses a `json` value that arrived as text. */
export const parse = <T>(text: string): T => JSON.parse(text) as T;
