/** A syntax error in a JSON text, with its position. Lines and columns count from 1. */
export class JsonTextError extends Error {
  readonly line: number;
  readonly column: number;
  constructor(text: string, position: number, why: string) {
    super(why);
    this.name = "JsonTextError";
    const before = text.slice(0, position).split("\n");
    this.line = before.length;
    this.column = (before.at(-1) ?? "").length + 1;
  }
}

/**
 * Parses the text of a JSON file. Errors carry line, column and a reason that users understand.
 * @throws JsonTextError
 */
export function parseJsonText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const said = (error as Error).message;
    const position = positionOf(text, said);
    const why = said.replace(/,? in JSON at position.*| at position.*|, (\.\.\.)?".*/s, "").replace(/ in JSON$/, "");
    throw new JsonTextError(text, position, hintAt(text, position) ?? why);
  }
}

/**
 * Returns the position of the error. V8 omits it for some unexpected tokens: then it is the end of the shortest failing
 * prefix.
 */
function positionOf(text: string, said: string): number {
  const given = /at position (\d+)/.exec(said)?.[1];
  if (given !== undefined) return Number(given);
  if (!said.startsWith("Unexpected token")) return text.length;
  let [good, bad] = [0, text.length];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (failsWithToken(text.slice(0, middle))) bad = middle;
    else good = middle;
  }
  return good;
}

function failsWithToken(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (error) {
    return (error as Error).message.startsWith("Unexpected token");
  }
}

/**
 * Returns a hint for a byte order mark, which editors insert, and for comments and trailing commas, which JSON does not
 * allow.
 */
function hintAt(text: string, position: number): string | null {
  if (text.startsWith("\uFEFF") && position === 0) return "the byte order mark at its beginning must go";
  if (/^\/[/*]/.test(text.slice(position))) return "comments are not allowed in JSON";
  if (/^[}\]]/.test(text.slice(position)) && /,\s*$/.test(text.slice(0, position))) {
    return `the comma before '${text[position]}' must go`;
  }
  return null;
}
