/**
 * A name, and a value that quotes may lead over several lines; outside of them a `#` begins a comment. In double quotes
 * `\"` is a quote, where another one ends the line: without that the value would end there, in the middle of what is seen.
 */
const assignment =
  /^[ \t]*(?:export[ \t]+)?([^\s#=][^\n=]*)=[ \t]*(?:"((?:[^"\\]|\\[\s\S])*)"(?=[ \t]*(?:#|$))|"([^"]*)"|'([^']*)'|`([^`]*)`|([^\n#]*))/gm;

/**
 * The variables of a `.env` file; of two of one name the last one counts. As Node reads it, but for two things: blanks
 * behind a `=` do not make the next line the value, and `\"` does not end one.
 */
export function parseDotenv(text: string): { name: string; value: string }[] {
  const found = new Map<string, string>();
  // Editors of Windows put a byte order mark in front, which would be part of the first name, and is not seen in a message.
  const lines = text.replace(/^\uFEFF/, "").replaceAll("\r\n", "\n");
  for (const [, name = "", double, torn, single, back, bare = ""] of lines.matchAll(assignment)) {
    const expanded = (double?.replaceAll('\\"', '"') ?? torn)?.replaceAll("\\n", "\n");
    found.set(name.trim(), expanded ?? single ?? back ?? bare.trim());
  }
  return [...found].map(([name, value]) => ({ name, value }));
}
