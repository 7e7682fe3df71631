/**
 * Returns the text of a value for a `json` column. It keeps every string, because `JSON.stringify` escapes NUL and lone
 * surrogates, and `json` accepts the escapes.
 */
export function exact(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "null";
  } catch (error) {
    // Some thousand levels, which no graph has. `JSON.parse` has no such limit, so requests bring them.
    if (error instanceof RangeError) throw new NestedTooDeeply();
    throw error;
  }
}

/** The server answers with `getResponse()` of an error. */
class NestedTooDeeply extends Error {
  readonly status = 422;
  constructor() {
    super("the value is nested too deeply");
  }
  getResponse(): Response {
    return new Response(this.message, { status: this.status });
  }
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
